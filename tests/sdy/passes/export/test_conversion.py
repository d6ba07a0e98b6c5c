"""Replacement of operations in the end."""

from __future__ import annotations

import emu.sdy
from emu.mlir.ir import Operation
from emu.sdy.passes.export.conversion import Conversion

PROGRAM = """
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %a <@grid, [{"y", ?}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def test_conversion_replaces_in_the_end() -> None:
    """Uses come to a value in the order of replacements, and chains are followed."""
    module = emu.sdy.parse("""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  %2 = stablehlo.abs %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
""")
    (func,) = module.body()
    argument = func.body().arguments[0]
    first, second, user, end = func.body()
    conversion = Conversion()
    conversion.replace(first, argument)
    assert conversion.current(second.operands[0]) is argument
    conversion.replace(second, conversion.current(second.operands[0]))
    assert first.result.has_uses, "nothing changes before the end"
    conversion.finish()
    assert list(func.body()) == [user, end]
    assert argument.uses == [(end, 0), (user, 0)]


def test_conversion_inserts_before_what_it_replaces() -> None:
    module = emu.sdy.parse(PROGRAM)
    func = module.body().last
    assert func is not None
    constraint = func.body().first
    assert constraint is not None
    made = Operation("stablehlo.abs", constraint.operands, [constraint.result.type])
    conversion = Conversion()
    conversion.insert(constraint, made)
    conversion.replace(constraint, made.result)
    conversion.finish()
    assert [op.name for op in func.body()] == ["stablehlo.abs", "func.return"]
