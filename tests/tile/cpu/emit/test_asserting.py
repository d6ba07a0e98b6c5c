"""Assertions of tiles in native code: the first lane that fails, how many do, and the values at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_cpu_runner import run
from tile_harness import Array, Kernel, values

from emu.tile.assertions import find_failure
from emu.tile.cpu.run.kernel import ProgramAssertionError
from emu.tile.ops import Code
from emu.tile.types import BF16, F16, F32, F64, I1, I8, I32, I64, DType

SHAPES = [(1,), (5,), (32,), (33,), (100,), (3, 4), (4, 1), (2, 40), (33, 3), (2, 3, 4), (1, 1, 70)]
DTYPES = [I1, I8, I32, I64, F16, BF16, F32, F64]


def _failing(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    share = random.choice([0, 0.02, 0.5, 1])
    return np.asarray(random.random(shape) >= share)


def _launch(condition: Array, shown: Array, *, scalar: bool, with_store: bool) -> Any:
    """Return the failure of a compiled kernel that asserts a condition; None if it holds."""
    kernel = Kernel()
    loaded, value = kernel.load(condition), kernel.load(shown)
    tile = value
    if with_store:  # the assertion shares the loop of other work
        kernel.result(kernel.builder.unary(Code.NOT, loaded))
    if scalar:
        value = kernel.argument(I32, 7)
    kernel.builder.assert_(loaded, "no", {"x": value})  # noqa: PT009 - emits an ASSERT
    kernel.result(tile)
    try:
        kernel.program("asserts").run(run)
    except ProgramAssertionError as error:
        return error.failure
    return None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_failing_lane_is_shown_with_its_values(
    shape: tuple[int, ...], dtype: DType
) -> None:
    random = np.random.default_rng([len(shape), *shape, *dtype.name.encode()])
    condition = _failing(shape, random)
    shown = values(dtype, condition.size, special=False).reshape(shape)
    scalar, with_store = random.random(2) < 0.5
    wanted = find_failure(condition, ["x"], [np.asarray(np.int32(7)) if scalar else shown])
    assert _launch(condition, shown, scalar=scalar, with_store=with_store) == wanted


@pytest.mark.parametrize("lane", [0, 1, 31, 32, 63, 64, 99])
def test_one_lane_of_many(lane: int) -> None:
    condition = np.ones(100, np.bool_)
    condition[lane] = False
    native = _launch(condition, np.arange(100, dtype=np.int32), scalar=False, with_store=True)
    assert (native.lane, native.count, native.values) == (lane, 1, {"x": lane})


def test_the_first_in_row_major_order_counts_whatever_the_walk() -> None:
    # Along the long axis the later row's lane comes first.
    condition = np.ones((3, 50), np.bool_)
    condition[0, 49] = condition[1, 0] = condition[2, 3] = False
    shown = np.arange(150, dtype=np.int64).reshape(3, 50)
    for order in ("C", "F"):
        native = _launch(np.asarray(condition, order=order), shown, scalar=False, with_store=False)
        assert (native.index, native.count, native.values) == ((0, 49), 3, {"x": 49})
