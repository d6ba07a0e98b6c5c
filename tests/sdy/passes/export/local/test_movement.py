"""Slices and updates of shards."""

from __future__ import annotations

import pytest
from sdy_local_programs import COLUMNS, CONVERT, CUT, ROWS, arg, on, program

import emu.sdy
from emu.mlir import parse

ON_ROWS, ON_COLUMNS, ON_NONE = on(ROWS), on(COLUMNS), on("{}, {}")


def slices(sizes: str, dims: str) -> str:
    return program(
        f"{arg('%a', 'tensor<4x8xf32>', dims)}, %i: tensor<i32>",
        f"  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [{sizes}] {on(dims)} "
        f": (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<{sizes.replace(', ', 'x')}xf32>",
    )


def test_a_dynamic_slice_takes_the_whole_of_a_dimension_that_is_cut() -> None:
    module = parse(slices("1, 8", COLUMNS))
    assert not emu.sdy.run_passes(module, CONVERT)
    assert "sizes = [1, 4]" in str(module)


def test_a_dynamic_slice_of_a_part_of_a_dimension_that_is_cut_is_refused() -> None:
    with pytest.raises(emu.sdy.PassFailed, match="dimension 1 is sharded but the slice is not"):
        emu.sdy.run_passes(parse(slices("1, 4", COLUMNS)), CONVERT)


def test_a_part_of_a_dimension_that_is_cut_is_updated_as_a_whole() -> None:
    text = program(
        f"{CUT}, %u: tensor<1x4xf32>, %i: tensor<i32>",
        f"  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i {ON_ROWS} : (tensor<4x4xf32>, "
        "tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>",
    )
    module = parse(text)
    assert not emu.sdy.run_passes(module, CONVERT)
    (update,) = [op for op in module.walk() if op.name == "stablehlo.dynamic_update_slice"]
    assert str(update.result.type) == "tensor<4x4xf32>"
    (emitted,) = emu.sdy.run_passes(parse(text), CONVERT + "{fix-wrong-results=false}")
    assert (
        "each device updates its shard at the place that is meant for the whole" in emitted.message
    )
