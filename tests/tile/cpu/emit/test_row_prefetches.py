"""Reductions of the rows of a matrix, block by block: they prefetch rows, and nothing else of them changes."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

RNG = np.random.default_rng(5)


@triton.jit
def row_sums(x, out, stride, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (at < columns)[None, :]
        part = tl.load(x + rows[:, None] * stride + at[None, :], mask=mask, other=0.0)
        total += tl.sum(part.to(tl.float32), axis=1)
    tl.store(out + rows, total)


@triton.jit
def sums_of_one_block(x, out, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, ROWS)
    part = tl.load(x + rows[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :])
    tl.store(out + rows, tl.sum(part, axis=1))


@triton.jit
def sums_of_chosen_rows(x, chosen, out, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        places = x + tl.load(chosen + rows)[:, None] * columns + at[None, :]
        total += tl.sum(tl.load(places), axis=1)
    tl.store(out + rows, total)


def summed(x: np.ndarray, block: int) -> np.ndarray:
    """Return the sums of rows in the order of the tile IR: runs of 32 lanes, which are then halved."""
    total = np.zeros(len(x), np.float32)
    for start in range(0, x.shape[1], block):
        part = np.zeros((len(x), block), np.float32)
        given = x[:, start : start + block].astype(np.float32)
        part[:, : given.shape[1]] = given
        lanes = np.full((len(x), 32), -0.0, np.float32)
        for run in range(0, block, 32):
            lanes = lanes + part[:, run : run + 32]
        while lanes.shape[1] > 1:
            half = lanes.shape[1] // 2
            lanes = lanes[:, :half] + lanes[:, half:]
        total += lanes[:, 0]
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("block", [32, 64, 256, 2048])
@pytest.mark.parametrize("columns", [1, 256, 300, 2111])
@pytest.mark.parametrize("rows", [2, 16])
def test_sums_keep_their_bits(dtype: type, block: int, columns: int, rows: int) -> None:
    x = RNG.standard_normal((2 * rows, columns + 3)).astype(dtype)
    out = np.empty(2 * rows, np.float32)
    row_sums[(2,)](x, out, columns + 3, columns, ROWS=rows, BLOCK=block)
    np.testing.assert_array_equal(out, summed(x[:, :columns], block))


def test_rows_read_in_a_loop_are_prefetched() -> None:
    x, out = np.ones((16, 512), np.float32), np.empty(16, np.float32)
    kernel = row_sums[(1,)](x, out, 512, 512, ROWS=16, BLOCK=256)
    assert 'call void @"llvm.prefetch.p0"' in kernel.asm["llir"]


def test_long_rows_are_left_to_the_cpu() -> None:
    x, out = np.ones((2, 4096), np.float32), np.empty(2, np.float32)
    kernel = row_sums[(1,)](x, out, 4096, 4096, ROWS=2, BLOCK=2048)
    assert "llvm.prefetch" not in kernel.asm["llir"]


def test_one_block_is_not_prefetched() -> None:
    x, out = np.ones((16, 256), np.float32), np.empty(16, np.float32)
    kernel = sums_of_one_block[(1,)](x, out, ROWS=16, BLOCK=256)
    assert "llvm.prefetch" not in kernel.asm["llir"]
    np.testing.assert_array_equal(out, x.sum(1))


def test_rows_chosen_by_an_index_are_not_prefetched() -> None:
    x, out = np.arange(16 * 512, dtype=np.float32).reshape(16, 512) % 7, np.empty(8, np.float32)
    chosen = RNG.integers(0, 16, 8).astype(np.int32)
    kernel = sums_of_chosen_rows[(1,)](x, chosen, out, 512, ROWS=8, BLOCK=256)
    assert "llvm.prefetch" not in kernel.asm["llir"]
    np.testing.assert_array_equal(out, x[chosen].sum(1))


def test_rows_before_memory_that_must_not_be_touched() -> None:
    page, count = mmap.PAGESIZE, 16 * 512
    size = count * 4
    assert size % page == 0
    region = mmap.mmap(-1, size + 16 * page)
    x = np.frombuffer(region, np.float32, count)
    libc = ctypes.CDLL(None, use_errno=True)
    behind = ctypes.c_void_p(x.ctypes.data + size)
    assert libc.mprotect(behind, ctypes.c_size_t(16 * page), 0) == 0, ctypes.get_errno()
    x[:] = RNG.standard_normal(count)
    out = np.empty(16, np.float32)
    row_sums[(1,)](x, out, 512, 512, ROWS=16, BLOCK=256)
    np.testing.assert_array_equal(out, summed(x.reshape(16, 512), 256))


@triton.jit
def copies_of_chosen_rows(x, chosen, out, count, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    numbers = tl.load(chosen + rows, mask=rows < count, other=0)
    mask = (rows < count)[:, None] & (at < columns)[None, :]
    part = tl.load(x + numbers[:, None] * columns + at[None, :], mask=mask, other=0.0)
    tl.store(out + rows[:, None] * columns + at[None, :], part, mask=mask)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("rows", [1, 2, 16])
@pytest.mark.parametrize("block", [32, 64, 256])
def test_rows_that_indices_pick(dtype: type, rows: int, block: int) -> None:
    columns = 300
    x = (RNG.standard_normal((9, columns)) * 99).astype(dtype)
    count = 2 * rows + 1
    chosen = RNG.integers(0, 9, count)
    chosen[-1] = 8
    out = np.full((3 * rows, columns), 7, dtype)
    grid = (3, -(-columns // block))
    kernel = copies_of_chosen_rows[grid](x, chosen, out, count, columns, ROWS=rows, BLOCK=block)
    # One row has no next one, and a single run is over before its prefetches come.
    assert ("llvm.prefetch" in kernel.asm["llir"]) == (rows > 1 and block > 32)
    np.testing.assert_array_equal(out[:count], x[chosen])
    assert (out[count:] == 7).all()
