"""Rows that end within a tile: runs wholly within the bound, the run that is partly within, and those beyond it."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

COUNTS = [-5, 0, 1, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 1000]


@triton.jit
def copy(x_at, out_at, count, start, N: tl.constexpr):
    at = tl.arange(0, N)
    mask = start + at < count
    tl.store(out_at + at, tl.load(x_at + at, mask=mask, other=7) + 1, mask=mask)


@triton.jit
def copy_up_to(x_at, out_at, last, N: tl.constexpr):
    at = tl.arange(0, N)
    mask = last >= at
    tl.store(out_at + at, tl.load(x_at + at, mask=mask), mask=mask)


@triton.jit
def square(out_at, count, N: tl.constexpr):
    at = tl.arange(0, N)
    inside = at < count
    places = at[:, None] * N + at[None, :]
    tl.store(out_at + places, places + 1, mask=inside[:, None] & inside[None, :])


@triton.jit
def backwards(x_at, out_at, count, N: tl.constexpr):
    at = tl.arange(0, N)
    mask = at < count
    x = tl.load(x_at + at, mask=mask, other=0)
    tl.store(out_at + at, tl.flip(tl.where(mask, x, -1)), mask=mask)


@triton.jit
def column_and_row(x_at, out_at, count, rows, N: tl.constexpr):
    row = tl.arange(0, N)[:, None]
    column = tl.arange(0, N)[None, :]
    mask = (column < count) & (row < rows) & (column != 3)
    x = tl.load(x_at + row * N + column, mask=mask, other=2)
    tl.store(out_at + row * N + column, x * 2, mask=(column < count) & (row + column != 40))


@triton.jit
def largest(x_at, out_at, count, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_at + at, mask=at < count, other=-1000)
    tl.store(out_at, tl.max(x, axis=0))
    tl.store(out_at + 1, tl.sum(tl.where(at < count, x, 0), axis=0))


@triton.jit
def rows_of(x_at, out_at, stride, rows, columns, N: tl.constexpr):
    at = tl.arange(0, N)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        mask = at < columns
        x = tl.load(x_at + row * stride + at, mask=mask, other=0)
        tl.store(out_at + row * columns + at, x - tl.max(x, axis=0), mask=mask)


@triton.jit
def rows_down(x_at, out_at, rows, N: tl.constexpr):
    at = tl.arange(0, N)
    for back in range(rows):
        row = (back ^ 1) * 3
        tl.store(out_at + row * N + at, tl.load(x_at + row * N + at) + back)


@triton.jit
def rows_by_quotients(x_at, out_at, rows, N: tl.constexpr):
    at = tl.arange(0, N)
    for round in range(rows):
        left = rows - round
        row = rows // left + rows % left
        tl.store(out_at + round * N + at, tl.load(x_at + row * N + at))


@pytest.mark.parametrize("start", [0, 5, -40, 2**31 - 64, -(2**31)])
@pytest.mark.parametrize("count", [*COUNTS, 2**31 - 1, -(2**31)])
def test_a_row(count, start):
    x = np.arange(128, dtype=np.int32) * 3
    out = np.zeros(160, np.int32)
    copy[(1,)](x, out, count, start, N=128)
    index = (np.arange(128) + start).astype(np.int64)
    index = (index + 2**31) % 2**32 - 2**31  # as i32 wraps
    np.testing.assert_array_equal(out[:128], np.where(index < count, x + 1, 0))
    assert not out[128:].any()


@pytest.mark.parametrize("count", COUNTS)
def test_a_row_up_to_its_last(count):
    x = np.arange(1, 129, dtype=np.float16)
    out = np.zeros(128, np.float16)
    copy_up_to[(1,)](x, out, count, N=128)
    np.testing.assert_array_equal(out, np.where(np.arange(128) <= count, x, 0))


@pytest.mark.parametrize("count", COUNTS)
def test_one_bound_of_both_axes(count):
    out = np.zeros((128, 128), np.int32)
    square[(1,)](out, count, N=128)
    inside = np.arange(128) < count
    expected = np.arange(1, 128 * 128 + 1).reshape(128, 128)
    np.testing.assert_array_equal(out, np.where(inside[:, None] & inside, expected, 0))


@pytest.mark.parametrize("count", COUNTS)
def test_a_bound_that_is_read_backwards(count):
    x = np.arange(128, dtype=np.int32)
    out = np.full(128, 9, np.int32)
    backwards[(1,)](x, out, count, N=128)
    inside = np.arange(128) < count
    np.testing.assert_array_equal(out, np.where(inside, np.where(inside, x, -1)[::-1], 9))


@pytest.mark.parametrize("rows", [0, 1, 40, 128])
@pytest.mark.parametrize("count", COUNTS)
def test_other_conditions_beside_the_bound(count, rows):
    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    out = np.zeros_like(x)
    column_and_row[(1,)](x, out, count, rows, N=128)
    row, column = np.ogrid[:128, :128]
    read = np.where((column < count) & (row < rows) & (column != 3), x, 2)
    written = (column < count) & (row + column != 40)
    np.testing.assert_array_equal(out, np.where(written, read * 2, 0))


@pytest.mark.parametrize("count", COUNTS)
def test_reductions(count):
    x = np.random.default_rng(3).integers(-99, 99, 128).astype(np.int32)
    out = np.zeros(2, np.int32)
    largest[(1,)](x, out, count, N=128)
    within = x[: max(0, count)]
    assert out[0] == max([*within, *([-1000] if count < 128 else [])])
    assert out[1] == within.sum()


@pytest.mark.parametrize("programs", [1, 3, 40])
@pytest.mark.parametrize("columns", [1, 33, 781, 1024])
@pytest.mark.parametrize("stride", [1024, 1500])
def test_rows_of_a_loop(programs, columns, stride):
    x = np.random.default_rng(columns).standard_normal((37, stride)).astype(np.float32)
    out = np.zeros((37, columns), np.float32)
    rows_of[(programs,)](x, out, stride, 37, columns, N=1024)
    most = x[:, :columns].max(axis=1, keepdims=True)
    if columns < 1024:
        most = np.maximum(most, 0)
    np.testing.assert_array_equal(out, x[:, :columns] - most)


def test_rows_whose_order_is_none():
    x = np.arange(99 * 256, dtype=np.float32).reshape(99, 256)
    out = np.zeros_like(x)
    rows_down[(1,)](x, out, 32, N=256)
    for back in range(32):
        row = (back ^ 1) * 3
        np.testing.assert_array_equal(out[row], x[row] + back)


def test_rows_that_divide_by_what_is_left():
    x = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    out = np.zeros((31, 256), np.float32)
    rows_by_quotients[(1,)](x, out, 31, N=256)
    for done in range(31):
        np.testing.assert_array_equal(out[done], x[31 // (31 - done) + 31 % (31 - done)])
