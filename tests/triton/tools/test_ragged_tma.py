"""Ragged descriptors: parts of rows, read and written without touching what is beside them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.tools.ragged_tma import (
    atomic_add_ragged,
    create_ragged_descriptor,
    load_ragged,
    store_ragged,
)

Array = np.ndarray[Any, Any]
DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)),
]


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = int(np.prod(shape))
    memory = np.zeros(size * dtype.itemsize + 64, np.uint8)
    first = -memory.ctypes.data % 64
    found = memory[first : first + size * dtype.itemsize].view(dtype).reshape(shape)
    found[...] = (np.arange(size) % 97).astype(dtype).reshape(shape)
    return found


@triton.jit
def _move(source, to, from_row, from_count, to_row, to_count, add: tl.constexpr):
    data = load_ragged(source, from_row, from_count, [0, 0])
    if add:
        atomic_add_ragged(to, to_row, to_count, [0, 0], data)
    else:
        store_ragged(to, to_row, to_count, [0, 0], data)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", DTYPES)
def test_a_part_of_the_rows_moves(name: str, backend: str) -> None:
    dtype = _dtype(name)
    x, y = _filled((100, 48), dtype), _filled((90, 48), dtype)[::-1].copy()
    wanted = y.copy()
    source, to = create_ragged_descriptor(x, [32, 64]), create_ragged_descriptor(y, [32, 64])
    _move[(1,)](source, to, 42, 17, 51, 24, False, backend=backend)
    wanted[51:68], wanted[68:75] = x[42:59], 0
    np.testing.assert_array_equal(y, wanted)
    if name in ("float32", "float16", "bfloat16", "int32"):
        _move[(1,)](source, to, 3, 40, 80, 5, True, backend=backend)
        wanted[80:85] += x[3:8]
        np.testing.assert_array_equal(y, wanted)


@triton.jit
def _columns(source, to, first, count, start, B: tl.constexpr):
    data = load_ragged(source, first, count, [1, start, 8], 1)
    store_ragged(to, first, count, [1, start, 8], data, ragged_dim=1)


@pytest.mark.parametrize(
    ("first", "count", "start"), [(2, 7, 0), (2, 7, 4), (0, 1, 0), (5, 0, 0), (9, 3, 8)]
)
def test_parts_lie_along_any_axis_but_the_last(first: int, count: int, start: int) -> None:
    x, y = _filled((3, 12, 24), np.dtype(np.float32)), np.full((3, 12, 24), -1, np.float32)
    source = create_ragged_descriptor(x, [2, 4, 8], ragged_dim=-2)
    to = create_ragged_descriptor(y, [2, 4, 8], ragged_dim=1)
    _columns[(1,)](source, to, first, count, start, 4)
    wanted, stop = np.full_like(y, -1), min(first + count, first + start + 4)
    wanted[1:3, first + start : stop, 8:16] = x[1:3, first + start : stop, 8:16]
    np.testing.assert_array_equal(y, wanted)


X = _filled((4, 8), np.dtype(np.float32))


def test_what_cannot_be_ragged_is_named() -> None:
    with pytest.raises(ValueError, match="ragged_dim must be an axis of T other than the last"):
        create_ragged_descriptor(X, [4, 8], 1)
    with pytest.raises(AssertionError, match="must be an axis of T other than the last, but got 5"):
        create_ragged_descriptor(X, [4, 8], 5)
    with pytest.raises(ValueError, match="block_shape must have 2 extents"):
        create_ragged_descriptor(X, [4])
    with pytest.raises(ValueError, match="at most 3 axes, but got 4"):
        create_ragged_descriptor(X.reshape(1, 1, 4, 8), [1, 1, 4, 8])


@triton.jit
def _wrong(source, axis: tl.constexpr, coords):
    load_ragged(source, 0, 4, coords, axis)


def test_wrong_accesses_are_named() -> None:
    made = create_ragged_descriptor(X, [4, 8])
    with pytest.raises(triton.CompilationError, match="coords must be 2"):
        _wrong[(1,)](made, 0, (0,))
    with pytest.raises(triton.CompilationError, match=r"ragged_dim must be in \[0, 1\), but got 1"):
        _wrong[(1,)](made, 1, (0, 0))
    with pytest.raises(triton.CompilationError, match="TMA must be a ragged descriptor"):
        _wrong[(1,)](3, 0, (0, 0))
