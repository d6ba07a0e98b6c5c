"""Scans along any axis, in both directions, of one or two tiles: what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel

import emu.triton.language as tl
from emu import triton
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import I32


@settings(deadline=None, max_examples=25)
@given(
    shape=st.sampled_from(
        [(1,), (5,), (32,), (96,), (33,), (4, 64), (64, 4), (3, 1, 5), (2, 8, 32)]
    ),
    axis=st.integers(0, 2),
    reverse=st.booleans(),
    broadcast=st.booleans(),
    seed=st.integers(0, 9),
)
def test_scans_are_those_of_the_reference(
    shape: tuple[int, ...], axis: int, reverse: bool, broadcast: bool, seed: int
) -> None:
    k = Kernel()
    b = k.builder
    chance = np.random.default_rng(seed)
    axis = min(axis, len(shape) - 1)
    first = k.load(chance.integers(-99, 99, shape).astype(np.int32))
    second = k.load(chance.integers(-3, 3, shape).astype(np.int32))
    if broadcast:  # one row for all, read with stride 0
        line = (*shape[:-1], 1)
        second = b.broadcast(k.load(chance.integers(-3, 3, line).astype(np.int32)), shape)

    def composed(f: Value, g: Value, p: Value, q: Value) -> list[Value]:
        """Two linear maps, one behind the other: order matters."""
        product = b.binary(Code.MUL, g, q)
        return [b.binary(Code.ADD, b.binary(Code.MUL, f, q), p), product]

    for result in b.scan([first, second], axis, composed, reverse):
        assert result.dtype == I32
        k.result(result)
    k.program("scan").check(run)


@triton.jit
def scan_in_place(x, out, count, stride, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.load(x + at * stride, mask=at < count, other=1)
    tl.store(out + at, tl.cumsum(values, 0))


@triton.jit
def scan_after_store(x, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.load(x + at)
    tl.store(x + at, values * 0)
    tl.store(x + at, tl.cumsum(values, 0))


@triton.jit
def scan_columns(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    turned = tl.arange(0, COLUMNS)[None, :] * ROWS + tl.arange(0, ROWS)[:, None]
    tl.store(out + at, tl.cumsum(tl.load(x + turned), 0, reverse=REVERSE))


@pytest.mark.parametrize("count", [0, 1, 255, 256])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("offset", [0, 1, 40])
def test_a_scan_reads_what_it_loads_where_it_lies(count: int, stride: int, offset: int) -> None:
    """The result may overlap what is scanned: all of it is read first."""
    memory = np.arange(1000, dtype=np.int32)
    wanted, lanes = memory.copy(), np.arange(256)
    loaded = np.where(lanes < count, memory[lanes * stride], 1)
    wanted[offset : offset + 256] = np.cumsum(loaded)
    scan_in_place[(1,)](memory, memory[offset:], count, stride, N=256)
    np.testing.assert_array_equal(memory, wanted)


def test_a_scan_does_not_read_what_was_stored_since() -> None:
    x = np.arange(128, dtype=np.int32)
    wanted = np.cumsum(x)
    scan_after_store[(1,)](x, N=128)
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_columns_that_lie_in_rows(reverse: bool) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (32, 64)).astype(np.int32)
    out = np.zeros((64, 32), np.int32)
    scan_columns[(1,)](x, out, ROWS=64, COLUMNS=32, REVERSE=reverse)
    turned = x.T[::-1] if reverse else x.T
    wanted = np.cumsum(turned, 0)
    np.testing.assert_array_equal(out, wanted[::-1] if reverse else wanted)
