"""Results of single operations, as the reference interpreter gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tile_harness import Kernel

from emu.tile.ir import Value
from emu.tile.types import (
    FROM_NUMPY,
    DType,
)


def evaluate(build: Callable[..., Value], *inputs: tuple[Sequence[float], DType]) -> list[Any]:
    """Run an operation on tiles of numbers and return the elements of its result."""
    k = Kernel()
    tiles = []
    for numbers, dtype in inputs:
        exact = np.array(list(numbers), object if dtype.is_integer else np.float64)
        tiles.append(k.load(exact.astype(dtype.numpy)))
    k.result(build(k.builder, *tiles))
    result = k.program("p").run_reference()[-1]
    assert result is not None
    if FROM_NUMPY[result.dtype].is_float:
        return result.astype(np.float64).tolist()
    return result.tolist()


def same(got: Sequence[float], wanted: Sequence[float]) -> None:
    """Compare numbers exactly, with the sign of zeros; NaN equals NaN."""
    assert list(map(repr, map(float, got))) == list(map(repr, map(float, wanted)))


def cast(
    numbers: Sequence[float], source: DType, target: DType, rounding: str = "rtne"
) -> list[Any]:
    return evaluate(lambda f, x: f.cast(x, target, rounding), (numbers, source))
