"""Partial results that nothing combines are found before reshards are inserted."""

from __future__ import annotations

import pytest

import emu.sdy
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.export.unreduced_axes import VerifyUnreducedAxes

T = "tensor<8x8xf32>"
Y = '{"y"}'
WHOLE, ONE = "[{}, {}]", "[{}]"
HEAD = '\nsdy.mesh @g = <["x"=2, "y"=2]>\n'
DROPPED = (
    "dropped unreduced axis 'y' without a blessed operation (e.g., sdy.reshard). This is an invalid "
    "transition from unreduced to reduced."
)


def sharding(unreduced: str = "", dims: str = '[{"x"}, {}]') -> str:
    tail = f", unreduced={unreduced}" if unreduced else ""
    return f"<@g, {dims}{tail}>"


def per_value(unreduced: str = "", dims: str = '[{"x"}, {}]') -> str:
    return f"{{sdy.sharding = #sdy.sharding_per_value<[{sharding(unreduced, dims)}]>}}"


def function(body: str, given: str = "", returned: str = "") -> str:
    return (
        f"{HEAD}func.func @f(%x: {T} {{sdy.sharding = #sdy.sharding{sharding(given)}}}) -> "
        f"({T} {{sdy.sharding = #sdy.sharding{sharding(returned)}}}) {{\n{body}\n}}\n"
    )


def said(text: str) -> list[str]:
    """The errors of the pass, without places."""
    session = Session()
    module = emu.sdy.parse(text)
    try:
        run_pass(VerifyUnreducedAxes(), module, session)
    except emu.sdy.PassFailed:
        assert session.diagnostics.emitted
    return [each.message for each in session.diagnostics.emitted]


def reduce(op: str, unreduced: str) -> str:
    return (
        "  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.{op} across dimensions = [0] "
        f"{per_value(unreduced, ONE)} : ({T}, tensor<f32>) -> tensor<8xf32>\n"
        f"  return %x : {T}"
    )


CASES = [
    ("dropped", '{"y"}', f"  %0 = stablehlo.add %x, %x {per_value()} : {T}\n  return %0 : {T}", "",
     [f"'stablehlo.add' op {DROPPED}"]),
    ("passed on", '{"y"}',
     f"  %0 = stablehlo.add %x, %x {per_value(Y)} : {T}\n  return %0 : {T}", '{"y"}', []),
    ("resharded", '{"y"}',
     (f"  %r = sdy.reshard %x {sharding()} : {T}\n"
     f"  %0 = stablehlo.add %r, %r {per_value()} : {T}\n  return %0 : {T}"), "", []),
    ("resharded before a barrier", '{"y"}',
     (f"  %r = sdy.reshard %x {sharding()} : {T}\n"
     f"  %b = sdy.propagation_barrier %r allowed_direction=NONE : {T}\n"
     f"  %0 = stablehlo.add %b, %b {per_value()} : {T}\n  return %0 : {T}"), "", []),
    ("another operator", 'max{"y"}',
     f"  %0 = stablehlo.add %x, %x {per_value(Y)} : {T}\n  return %0 : {T}", '{"y"}',
     [("'stablehlo.add' op cannot change the reduction operator of kept unreduced axes from max to "
      "sum.")]),
    ("a maximum of maxima", "", reduce("maximum", 'max{"x"}'), "", []),
    ("a minimum of minima", "", reduce("minimum", 'min{"x"}'), "", []),
    ("a sum as maximum", "", reduce("add", 'max{"x"}'), "",
     ["'stablehlo.reduce' op cannot introduce 'max' unreduced axes. Expected 'sum'."]),
    ("a product", "", reduce("multiply", '{"x"}'), "",
     ["'stablehlo.reduce' op cannot add new unreduced axis 'x'."]),
    ("returned", '{"y"}', f"  return %x : {T}", "",
     [("'func.return' op has unreduced axes mismatch for 'y' at return value 0 without a blessed "
      "operation (e.g., sdy.reshard). This is an invalid transition from unreduced to reduced.")]),
    ("not sharded", "",
     (f"  %c = stablehlo.constant dense<0.0> : {T}\n"
     f"  %0 = sdy.all_reduce {{\"y\"}} %c out_sharding={sharding(dims=WHOLE)} : {T}\n"
     f"  return %x : {T}"), "", ["'sdy.all_reduce' op operand must be sharded."]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "body", "returned", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_function(given: str, body: str, returned: str, expected: list[str]) -> None:
    assert said(function(body, given, returned)) == expected


CALL = f"""{HEAD}
func.func private @callee(%x: {T} {{sdy.sharding = #sdy.sharding{sharding("ARGUMENT")}}})
    -> ({T} {{sdy.sharding = #sdy.sharding{sharding("ARGUMENT")}}}) {{
  return %x : {T}
}}
func.func @f(%x: {T} {{sdy.sharding = #sdy.sharding{sharding("GIVEN")}}}) -> {T} {{
  %0 = call @callee(%x) {per_value("RESULT")} : ({T}) -> {T}
  return %x : {T}
}}
"""


def call(argument: str, given: str, result: str) -> str:
    text = CALL
    for word, axes in (("ARGUMENT", argument), ("GIVEN", given), ("RESULT", result)):
        text = text.replace(word, axes) if axes else text.replace(f", unreduced={word}", "")
    return text


@pytest.mark.parametrize(
    ("argument", "given", "result", "place"),
    [
        ('{"y"}', '{"y"}', '{"y"}', None),
        ('{"y"}', "", '{"y"}', "argument"),
        ("", '{"y"}', "", "argument"),
        ('{"y"}', '{"y"}', "", "result"),
        ("", "", '{"y"}', "result"),
    ],
)
def test_a_call(argument: str, given: str, result: str, place: str | None) -> None:
    expected = [f"'func.call' op has unreduced axes mismatch for 'y' at call {place} 0."]
    assert said(call(argument, given, result)) == (expected if place else [])


def test_every_function_is_verified() -> None:
    one = f"  %0 = stablehlo.add %x, %x {per_value()} : {T}\n  return %0 : {T}"
    two = function(one, '{"y"}') + function(one, '{"y"}').replace(HEAD, "").replace("@f", "@h")
    assert said(two) == [f"'stablehlo.add' op {DROPPED}"] * 2


def test_manual_axes_are_not_seen_inside() -> None:
    text = f"""{HEAD}
func.func @f(%x: {T} {{sdy.sharding = #sdy.sharding{sharding(Y)}}}) -> {T} {{
  %0 = sdy.manual_computation(%x) in_shardings=[{sharding(Y)}]
      out_shardings=[{sharding(Y)}] manual_axes={{"x", "y"}} (%a: tensor<4x8xf32>) {{
    %1 = stablehlo.negate %a : tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  }} : ({T}) -> {T}
  return %0 : {T}
}}
"""
    assert said(text) == []
    given, wrong = f"out_shardings=[{sharding(Y)}]", f"out_shardings=[{sharding()}]"
    dropping = text.replace(given, wrong)
    assert said(dropping) == [f"'sdy.manual_computation' op {DROPPED}"]
