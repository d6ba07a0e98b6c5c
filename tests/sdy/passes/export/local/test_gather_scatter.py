"""Scatters on shards."""

from __future__ import annotations

import pytest

import emu.sdy
from emu.mlir import parse

CONVERT = "sdy-convert-global-to-local"


HEAD = 'sdy.mesh @grid = <["r"=2, "c"=2]>\n'


def arg(name: str, type_: str, dims: str = "") -> str:
    sharding = f" {{sdy.sharding = #sdy.sharding<@grid, [{dims}]>}}" if dims else ""
    return f"{name}: {type_}{sharding}"


def on(*dims: str) -> str:
    shardings = ", ".join(f"<@grid, [{each}]>" for each in dims)
    return f"{{sdy.sharding = #sdy.sharding_per_value<[{shardings}]>}}"


def program(arguments: str, body: str) -> str:
    return f"{HEAD}func.func @main({arguments}) {{\n{body}\n  return\n}}\n"


def refusal(arguments: str, body: str, options: str = "") -> str:
    module = parse(program(arguments, body))
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run(module, CONVERT + options)
    return str(caught.value)


ROWS = '{"r"}, {}'


COLUMNS = '{}, {"c"}'


CUT = arg("%a", "tensor<4x4xf32>", ROWS)


ON_ROWS, ON_COLUMNS, ON_NONE = on(ROWS), on(COLUMNS), on("{}, {}")


def scatter(inserted: str, indexed: str, body: str, updates: str) -> str:
    return (
        '  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = '
        f"#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [{inserted}], "
        f"scatter_dims_to_operand_dims = [{indexed}], index_vector_dim = 1>}}> ({{\n"
        f"  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n{body}\n  }}) {ON_NONE} "
        f": (tensor<4x4xf32>, tensor<2x1xi64>, {updates}) -> tensor<4x4xf32>"
    )


def test_scatter_needs_a_reduction() -> None:
    updates = "tensor<2x4xf32>"
    arguments = f"%a: tensor<4x4xf32>, %i: tensor<2x1xi64>, {arg('%u', updates, ROWS)}"
    said = refusal(arguments, scatter("0", "0", "    stablehlo.return %y : tensor<f32>", updates))
    assert "failed to get scatter reduction identity." in said


def test_scatter_beside_a_window() -> None:
    updates = "tensor<2x4xf32>"
    arguments = f"{CUT}, %i: tensor<2x1xi64>, %u: {updates}"
    said = refusal(arguments, scatter("0", "1", "    stablehlo.return %y : tensor<f32>", updates))
    assert "sharding operand dimension 0 that is not indexed but in inserted window" in said
