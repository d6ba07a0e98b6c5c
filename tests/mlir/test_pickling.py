"""Pickled operations."""

import pickle

import pytest

from emu.mlir import parse, to_text

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


def test_pickles_keep_text_uses_and_locations() -> None:
    module = parse(PRETTY, file="p.mlir")
    copy = pickle.loads(pickle.dumps(module))
    assert to_text(copy, locations=True) == to_text(module, locations=True)
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        for a, b in zip(old.results, new.results, strict=True):
            assert [(o.name, i) for o, i in a.uses] == [(o.name, i) for o, i in b.uses]


def test_an_operation_that_needs_others_is_not_pickled() -> None:
    module = parse('%0 = "t.a"() : () -> i32\n"t.b"(%0) : (i32) -> ()')
    last = module.body().last
    with pytest.raises(ValueError, match=r"t\.b uses a value or a block from outside"):
        pickle.dumps(last)


def test_a_long_chain_does_not_recurse() -> None:
    lines = ['%0 = "t.a"() : () -> i32']
    lines += [f'%{i + 1} = "t.b"(%{i}) {{n = {i} : i64}} : (i32) -> i32' for i in range(3000)]
    expected = "module {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    module = parse("\n".join(lines))
    assert to_text(module) == expected
    assert to_text(pickle.loads(pickle.dumps(module))) == expected
