"""Tiles that are larger than what is left of a tensor, masks that let one lane too many through, wrong strides."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import emu.triton.language as tl
from emu import triton
from tests.check.bounds.faults import F, I, fault, floats, whole

# --- one axis -------------------------------------------------------------------------------------


@triton.jit
def tail_is_loaded(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < (n if FIXED else n + B)
    tl.store(to + i, tl.load(x + i, mask=inside), mask=i < n)  # here


@triton.jit
def tail_is_stored(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i, mask=i < n)
    if FIXED:
        tl.store(to + i, value, mask=i < n)
    else:
        tl.store(to + i, value)  # here


@triton.jit
def mask_off_by_one(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = (i < n) if FIXED else (i <= n)
    tl.store(to + i, tl.load(x + i, mask=inside), mask=i < n)  # here


@triton.jit
def mask_of_another_tensor(x, to, n, m, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i, mask=i < n)
    tl.store(to + i, value, mask=i < (m if FIXED else n))  # here


@triton.jit
def left_neighbour(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    if FIXED:
        inside &= i > 0
    tl.store(to + i, tl.load(x + i - 1, mask=inside), mask=i < n)  # here


@triton.jit
def right_neighbour(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = (i + 1 < n) if FIXED else (i < n)
    tl.store(to + i, tl.load(x + i + 1, mask=inside), mask=i < n)  # here


@triton.jit
def every_second(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = 2 * i + (0 if FIXED else 1)
    tl.store(to + i, tl.load(x + at, mask=i * 2 < n), mask=i * 2 < n)  # here


@triton.jit
def where_is_no_mask(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i, mask=i < n, other=0)
    if not FIXED:
        value = tl.where(i < n, tl.load(x + i), 0)  # here
    tl.store(to + i, value, mask=i < n)


@triton.jit
def block_larger_than_all(to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FIXED:
        tl.store(to + i, 1, mask=i < n)
    else:
        tl.store(to + i, 1)  # here


@triton.jit
def one_program_too_many(to, n, FIXED: tl.constexpr, B: tl.constexpr):
    me = tl.program_id(0)
    if me * B < n or not FIXED:
        tl.store(to + me * B + tl.arange(0, B), me)  # here


@triton.jit
def offset_that_wraps(to, n, FIXED: tl.constexpr, STEP: tl.constexpr):
    me = tl.program_id(0)
    at = me * STEP  # 32 bits hold no more than 2^31
    if FIXED:
        at = me.to(tl.int64) * STEP % n
    if FIXED or me == 3:
        tl.store(to + at, me)  # here


@triton.jit
def nothing_there(x, to, n, FIXED: tl.constexpr):
    i = tl.arange(0, 4)
    inside = i < n
    if not FIXED:
        inside |= i == 2
    tl.store(to + i, tl.load(x + i, mask=inside), mask=i < n)  # here


def _tail() -> tuple[object, ...]:
    return *floats(40, 40), 40


fault(tail_is_loaded, _tail, 3, ("x", 40), program=2, B=16)
fault(tail_is_stored, _tail, 3, ("to", 40), program=2, verb="store", B=16)
fault(mask_off_by_one, _tail, 3, ("x", 40), program=2, B=16)
fault(mask_of_another_tensor, lambda: (*floats(12, 9), 12, 9), 1, ("to", 9), verb="store", B=16)
fault(left_neighbour, _tail, 3, ("x", -1), B=16)
fault(right_neighbour, _tail, 3, ("x", 40), program=2, B=16)
fault(every_second, lambda: (*floats(11, 8), 11), 1, ("x", 11), B=8)
fault(where_is_no_mask, lambda: (*floats(10, 10), 10), 1, ("x", 10), B=16)
fault(block_larger_than_all, lambda: (*floats(20), 20), 1, ("to", 20), verb="store", B=32)
fault(one_program_too_many, lambda: (*whole(32), 32), 5, ("to", 32), program=4, verb="store", B=8)
WRAPPED = 3 * 10**9 - 2**32
fault(
    offset_that_wraps,
    lambda: (*whole(32), 32),
    4,
    ("to", WRAPPED),
    program=3,
    verb="store",
    STEP=10**9,
)
fault(nothing_there, lambda: (*floats(0, 4), 0), 1, ("x", 2))

# --- two axes -------------------------------------------------------------------------------------


@triton.jit
def tail_of_the_last_row(x, to, columns, FIXED: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    inside = i < (columns if FIXED else B)
    value = tl.load(x + row * columns + i, mask=inside, other=0)  # here
    tl.store(to + row, tl.sum(tl.where(i < columns, value, 0)))


@triton.jit
def axes_swapped(x, to, ROWS: tl.constexpr, COLUMNS: tl.constexpr, FIXED: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    stride = COLUMNS if FIXED else ROWS
    tile = tl.load(x + r[:, None] * stride + c[None, :])  # here
    tl.store(to + r[:, None] * COLUMNS + c[None, :], tile)


@triton.jit
def transposed_store(x, to, m, n, FIXED: tl.constexpr, B: tl.constexpr):
    r, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    inside = (r < m) & (c < n)
    tile = tl.load(x + r * n + c, mask=inside)
    stride = m if FIXED else n
    tl.store(to + c * stride + r, tile, mask=inside)  # here


@triton.jit
def product_along_k(a, b, c, K, FIXED: tl.constexpr, B: tl.constexpr):
    i, k = tl.arange(0, B), tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for step in range(tl.cdiv(K, B)):
        rest = K - step * B
        left = tl.load(a + i[:, None] * K + step * B + k[None, :], mask=k[None, :] < rest, other=0)
        if FIXED:
            right = tl.load(
                b + (step * B + k)[:, None] * B + i[None, :], mask=k[:, None] < rest, other=0
            )
        else:
            right = tl.load(b + (step * B + k)[:, None] * B + i[None, :])  # here
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * B + i[None, :], total)


@triton.jit
def edge_of_a_product(c, m, n, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    k = tl.program_id(1) * B + tl.arange(0, B)
    inside = k[None, :] < n
    if FIXED:
        inside = inside & (r[:, None] < m)
    tl.store(c + r[:, None] * n + k[None, :], r[:, None] * 1.0, mask=inside)  # here


@triton.jit
def forgotten_plane(x, to, n, FIXED: tl.constexpr):
    z = tl.program_id(2)
    at = (tl.program_id(0) * n + tl.program_id(1)) * n + (z if FIXED else z * n)
    tl.store(to + at, tl.load(x + at))  # here


@triton.jit
def halo(x, weights, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in range(-1, 2):
        at = i + k
        inside = (i < n) & (at < n)
        if FIXED:
            inside &= at >= 0
        total += tl.load(x + at, mask=inside, other=0) * tl.load(weights + k + 1)  # here
    tl.store(to + i, total, mask=i < n)


def _matrix(m: int, n: int) -> tuple[np.ndarray, ...]:
    return np.ones((m, n), F), np.zeros((m, n), F)


fault(tail_of_the_last_row, lambda: (*floats(39, 3), 13), 3, ("x", 39), program=2, B=16)
fault(axes_swapped, lambda: _matrix(16, 8), 1, ("x", 128), ROWS=16, COLUMNS=8)
fault(transposed_store, lambda: (*floats(15, 15), 3, 5), 1, ("to", 15), verb="store", B=8)
fault(product_along_k, lambda: (*floats(320, 320, 256), 20), 1, ("b", 320), B=16)
fault(
    edge_of_a_product,
    lambda: (*floats(200), 20, 10),
    (2, 1),
    ("c", 200),
    program=1,
    verb="store",
    B=16,
)
fault(forgotten_plane, lambda: (*floats(8, 8), 2), (2, 2, 2), ("x", 8), program=7)
fault(halo, lambda: (*floats(10, 3, 10), 10), 1, ("x", -1), B=16)

# --- elements of other sizes, views ---------------------------------------------------------------


@triton.jit
def copy(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    inside = i < (n if FIXED else n + 1)
    tl.store(to + i, tl.load(x + i, mask=inside), mask=i < n)  # here


for dtype in (np.int8, np.int16, np.int64, np.float16, ml_dtypes.bfloat16, np.float64):
    name = f"copy_of_{np.dtype(dtype).name}"
    fault(copy, lambda d=dtype: (np.ones(21, d), np.ones(21, d), 21), 1, ("x", 21), name=name, B=32)


@triton.jit
def words_of_bytes(x, to, FIXED: tl.constexpr):
    i = tl.arange(0, 4)
    inside = i < (2 if FIXED else 3)
    words = tl.load(x.to(tl.pointer_type(tl.int32)) + i, mask=inside)  # here
    tl.store(to + i, words, mask=i < 2)


fault(words_of_bytes, lambda: (np.ones(10, np.int8), *whole(4)), 1, ("x", 8))


def _half(reverse: bool) -> tuple[object, ...]:
    memory = np.ones(40, F)
    return memory[::-1] if reverse else memory[30:], *floats(10), 10


fault(copy, lambda: _half(False), 1, ("x", 10), name="copy_of_a_view_at_the_end", B=16)


@triton.jit
def down_from_the_last(x, to, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    step = -1 if FIXED else 1
    tl.store(to + i, tl.load(x + i * step, mask=i < n), mask=i < n)  # here


fault(down_from_the_last, lambda: _half(True), 1, ("x", 1), B=16)
fault(copy, lambda: (np.zeros(7, I), np.zeros(7, I), 7), 1, ("x", 7), name="copy_of_seven", B=8)
