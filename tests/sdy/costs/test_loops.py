"""Numbers of turns that loops say they make."""

from __future__ import annotations

import numpy as np
import pytest

import emu.sdy
from emu.sdy.costs.loops import trip_count
from emu.stablehlo.reference import evaluate


def loop(start: str, test: str, step: str, type_: str = "i32") -> str:
    """Return a program that counts its turns."""
    return f"""
func.func @main(%x: tensor<{type_}>) -> tensor<i32> {{
  %start = {start} : tensor<{type_}>
  %limit = stablehlo.constant dense<17> : tensor<{type_}>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %start, %n = %zero, %bound = %limit)
      : tensor<{type_}>, tensor<i32>, tensor<{type_}>
  cond {{
    %inner = stablehlo.constant dense<10> : tensor<{type_}>
    %c = {test} : (tensor<{type_}>, tensor<{type_}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %by = stablehlo.constant dense<3> : tensor<{type_}>
    %next = {step} : tensor<{type_}>
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %next, %m, %bound : tensor<{type_}>, tensor<i32>, tensor<{type_}>
  }}
  return %0#1 : tensor<i32>
}}
"""


ZERO = "stablehlo.constant dense<0>"
FORTY = "stablehlo.constant dense<40>"
UP, DOWN = "stablehlo.add %i, %by", "stablehlo.subtract %i, %by"


@pytest.mark.parametrize("type_", ["i32", "i64", "i8"])
@pytest.mark.parametrize(
    ("start", "test", "step"),
    [
        (ZERO, "stablehlo.compare LT, %i, %inner", UP),
        (ZERO, "stablehlo.compare LE, %i, %inner", UP),
        (ZERO, "stablehlo.compare GT, %inner, %i", UP),
        (ZERO, "stablehlo.compare GE, %inner, %i", UP),
        (ZERO, "stablehlo.compare LT, %i, %bound", UP),
        (ZERO, "stablehlo.compare LT, %i, %bound", "stablehlo.add %by, %i"),
        (FORTY, "stablehlo.compare GT, %i, %inner", DOWN),
        (FORTY, "stablehlo.compare NE, %i, %inner", DOWN),
        (FORTY, "stablehlo.compare LT, %i, %inner", UP),
    ],
)
def test_turns_are_those_of_a_run(start: str, test: str, step: str, type_: str) -> None:
    module = emu.sdy.parse(loop(start, test, step, type_))
    (found,) = [trip_count(op) for op in module.walk() if op.name == "stablehlo.while"]
    dtype = {"i8": np.int8, "i32": np.int32, "i64": np.int64}[type_]
    (turns,) = evaluate(module, np.zeros((), dtype))
    assert found == turns


@pytest.mark.parametrize(
    ("start", "test", "step"),
    [
        ("stablehlo.negate %x", "stablehlo.compare LT, %i, %inner", UP),
        (ZERO, "stablehlo.compare LT, %i, %x", UP),
        (ZERO, "stablehlo.compare EQ, %i, %inner", UP),
        (ZERO, "stablehlo.compare NE, %i, %inner", UP),  # 10 is no multiple of 3
        (ZERO, "stablehlo.compare LT, %i, %inner", DOWN),  # until it wraps around
        (ZERO, "stablehlo.compare LT, %i, %inner", "stablehlo.multiply %i, %by"),
        (ZERO, "stablehlo.compare LT, %i, %inner", "stablehlo.add %i, %x"),
        (ZERO, "stablehlo.compare LT, %i, %inner", "stablehlo.subtract %by, %i"),
        (ZERO, "stablehlo.compare LT, %i, %inner", "stablehlo.add %bound, %by"),
        (ZERO, "stablehlo.compare LT, %inner, %inner", UP),
    ],
)
def test_turns_that_the_text_does_not_say_are_unknown(start: str, test: str, step: str) -> None:
    module = emu.sdy.parse(loop(start, test, step))
    assert [trip_count(op) for op in module.walk() if op.name == "stablehlo.while"] == [None]
