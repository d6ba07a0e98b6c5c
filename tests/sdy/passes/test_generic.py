"""cse, symbol-dce and strip-debuginfo."""

from __future__ import annotations

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import UNKNOWN, PassFailed
from emu.sdy.passes.base import Pass, Session, run_pass
from emu.sdy.passes.generic import Cse, StripDebuginfo, SymbolDce


def _after(each: Pass, text: str) -> str:
    module = parse(text)
    run_pass(each, module, Session())
    return to_text(module)


def test_of_equal_operations_the_first_stays():
    text = """
func.func @f(%x: tensor<4xf32>, %i: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = stablehlo.tanh %x {some.mark} : tensor<4xf32>
  %2 = stablehlo.tanh %x : tensor<4xf32>
  %3 = "stablehlo.case"(%i) ({
    %6 = stablehlo.tanh %x : tensor<4xf32>
    %7 = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %6 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %4 = stablehlo.sine %0 : tensor<4xf32>
  %5 = stablehlo.custom_call @loud(%4) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = stablehlo.custom_call @loud(%4) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %9 = stablehlo.add %2, %1 : tensor<4xf32>
  %10 = stablehlo.add %3, %9 : tensor<4xf32>
  return %10, %8 : tensor<4xf32>, tensor<4xf32>
}
"""
    assert (
        _after(Cse(), text)
        == """\
module {
  func.func @f(%arg0: tensor<4xf32>, %arg1: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    %1 = stablehlo.tanh %arg0 {some.mark} : tensor<4xf32>
    %2 = "stablehlo.case"(%arg1) ({
      stablehlo.return %0 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %3 = stablehlo.sine %0 : tensor<4xf32>
    %4 = stablehlo.custom_call @loud(%3) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    %5 = stablehlo.custom_call @loud(%3) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    %6 = stablehlo.add %0, %1 : tensor<4xf32>
    %7 = stablehlo.add %2, %6 : tensor<4xf32>
    return %7, %5 : tensor<4xf32>, tensor<4xf32>
  }
}
"""
    )


def test_regions_are_compared():
    loop = """
  %N:2 = stablehlo.while(%a = %x, %b = %x) : tensor<f32>, tensor<f32> cond {
    %c = stablehlo.compare LT, %a, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    stablehlo.return %RETURNED : tensor<f32>, tensor<f32>
  }"""
    one = loop.replace("%N", "%0").replace("%RETURNED", "%b, %a")
    same = loop.replace("%N", "%1").replace("%RETURNED", "%b, %a")
    other = loop.replace("%N", "%2").replace("%RETURNED", "%a, %b")
    text = (
        f"func.func @f(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {{{one}{same}{other}\n"
        "  return %0#0, %1#0, %2#0 : tensor<f32>, tensor<f32>, tensor<f32>\n}"
    )
    result = _after(Cse(), text)
    assert result.count("stablehlo.while") == 2
    assert "return %0#0, %0#0, %1#0" in result


def test_an_isolated_body_does_not_take_from_outside():
    text = """
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %1 = sdy.named_computation<"g">(%x) (%y: tensor<4xf32>) {
    %2 = stablehlo.constant dense<1.0> : tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
"""
    assert _after(Cse(), text).count("stablehlo.constant") == 2


SYMBOLS = """
sdy.mesh @g = <["a"=2]>
"sdy.mesh"() <{sym_name = "used", mesh = #sdy.mesh<["a"=2]>}> {sym_visibility = "private"} : () -> ()
"sdy.mesh"() <{sym_name = "listed", mesh = #sdy.mesh<["a"=2]>}> {sym_visibility = "private"} : () -> ()
"sdy.mesh"() <{sym_name = "unused", mesh = #sdy.mesh<["a"=2]>}> {sym_visibility = "private"} : () -> ()
func.func private @called(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@used, [{}]>}) {
  %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@listed, [{}]>]>} : tensor<4xf32>
  return
}
func.func private @round(%x: tensor<4xf32>) {
  call @round(%x) : (tensor<4xf32>) -> ()
  return
}
func.func private @named() { return }
func.func private @quoted() { return }
func.func nested @inner() { return }
func.func @main(%x: tensor<4xf32>) {
  call @called(%x) : (tensor<4xf32>) -> ()
  "who.knows"() {table = [{f = @named}], text = #who.cares<@quoted>} : () -> ()
  return
}
"""


def test_symbols_that_nothing_names_go():
    module = parse(SYMBOLS)
    run_pass(SymbolDce(), module, Session())
    names = [op.symbol_name for op in module.body()]
    assert names == ["g", "used", "listed", "called", "named", "quoted", "main"]


def test_what_may_hold_symbols_of_its_own_is_an_error():
    text = 'func.func @f() {\n  "who.knows"() ({\n    "who.ends"() : () -> ()\n  }) : () -> ()\n  return\n}'
    session = Session()
    with pytest.raises(PassFailed):
        run_pass(SymbolDce(), parse(text), session)
    (error,) = session.diagnostics.errors
    assert error.message == (
        "operation contains potentially unknown symbol table, meaning that we can't reliable "
        "compute symbol uses"
    )


def test_places_are_forgotten():
    module = parse("func.func @f(%x: tensor<4xf32>) {\n  return\n}")
    func = module.body().terminator
    assert func.location != UNKNOWN
    assert func.body().arguments[0].location != UNKNOWN
    run_pass(StripDebuginfo(), module, Session())
    assert {op.location for op in module.walk()} == {UNKNOWN}
    assert func.body().arguments[0].location == UNKNOWN
