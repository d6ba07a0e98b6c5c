"""Scatters on shards."""

from __future__ import annotations

from sdy_local_programs import COLUMNS, CUT, ROWS, arg, on, refusal

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
