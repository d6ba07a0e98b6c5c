"""Attributes and errors read from texts."""

from __future__ import annotations

import pytest

from emu.mlir import parse
from emu.mlir.attributes import (
    Attribute,
)
from emu.mlir.diagnostics import MlirError


def read(text: str) -> Attribute:
    module = parse(f'"t.op"() {{a = {text}}} : () -> ()')
    op = module.body().first
    assert op is not None
    return op.attributes["a"]


def errors(text: str) -> list[str]:
    with pytest.raises(MlirError) as caught:
        parse(text)
    found = []
    for each in caught.value.diagnostics:
        found.append(f"{str(each.location)[2:]}: {each.message}")
        found += [f"{str(note.location)[2:]}: note: {note.message}" for note in each.notes]
    return found


PRETTY = """\
module @net attributes {net.version = 2 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {net.role = "input"}, %arg1: i1) -> (tensor<4xf32> {net.role = "output"}, f32) attributes {net.entry} {
    %0:2 = "net.split"(%arg0) ({
    ^bb0(%arg2: i32):
      "net.branch"(%arg2)[^bb1, ^bb2] : (i32) -> ()
    ^bb1:  // pred: ^bb0
      "net.jump"()[^bb2] : () -> ()
    ^bb2:  // 2 preds: ^bb0, ^bb1
      %2 = "net.inner"(%arg1) : (i1) -> f32
      "net.end"(%2) : (f32) -> ()
    ^bb3(%3: i8):  // no predecessors
      "net.end"() : () -> ()
    }, {
    }) {net.note = "two"} : (tensor<4xf32>) -> (tensor<4xf32>, f32)
    %1 = call @helper(%0#0) {net.hot} : (tensor<4xf32>) -> f32
    return %0#0, %1 : tensor<4xf32>, f32
  }
  func.func private @helper(tensor<4xf32>) -> f32
  func.func nested @"odd name"() -> (() -> ()) {
    %f = constant @"odd name" : () -> (() -> ())
    %f_0 = constant @other : () -> ()
    %0 = call_indirect %f() : () -> (() -> ())
    return %f_0 : () -> ()
  }
  func.func @other() {
    return
  }
  module {
  }
}
"""
