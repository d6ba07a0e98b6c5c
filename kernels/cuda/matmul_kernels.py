"""The kernels of matrix products: tiles in shared memory, a block of results in each thread.

Every element of the result is one chain of fused multiply-adds with k increasing, whatever the
tiles: the same bits for every configuration, stride and device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import cuda

from emu.kernels.core.annotations import Dispatcher, KernelArray, Number
from emu.kernels.cuda.device import SIMULATED, device_function, kernel
from emu.kernels.cuda.elements import LOADS, STORES
from emu.kernels.cuda.primitives import (
    divide,
    fadd,
    fadd64,
    fma32,
    fma64,
    fmul,
    fmul64,
    imul_add,
    unsigned,
)


class Tiling(NamedTuple):
    """Sizes of a block's tile and of a thread's part of it."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    def shared_bytes(self, itemsize: int) -> int:
        """Bytes of the two tiles in shared memory."""
        return (self.rows + self.columns + 2 * _PAD) * self.depth * itemsize


# Rows of a tile begin 4 banks apart, so that a tile can be filled in either order without conflicts.
_PAD = 4
LARGE = Tiling(128, 128, 16, 8, 8)
SMALL = Tiling(64, 64, 16, 4, 4)
TINY = Tiling(8, 8, 4, 2, 2)
TILINGS = (TINY,) if SIMULATED else (LARGE, SMALL)
"""Tilings that are launched: a simulated thread costs so much that only tiny blocks are bearable there."""


@device_function
def _scale_f32(total: Number, alpha: float, beta: float, before: Number) -> Number:
    value = fmul(np.float32(alpha), total)
    return value if beta == 0.0 else fadd(value, fmul(np.float32(beta), before))


@device_function
def _scale_f64(total: Number, alpha: float, beta: float, before: Number) -> Number:
    value = fmul64(alpha, total)
    return value if beta == 0.0 else fadd64(value, fmul64(beta, before))


@device_function
def _scale_i32(total: Number, alpha: float, beta: float, before: Number) -> Number:
    value = imul_add(np.int32(0), np.int32(alpha), total)
    return imul_add(value, np.int32(beta), before)


@device_function
def _imul_add(a: Number, b: Number, total: Number) -> Number:
    return imul_add(total, a, b)


@device_function
def _iadd(a: Number, b: Number) -> Number:
    return imul_add(a, b, np.int32(1))


class Operand(NamedTuple):
    """A matrix to multiply, as a kernel takes it: its other axis is rows of the left, columns of the right."""

    address: int
    step: int
    """Bytes along the other axis."""
    k_step: int
    along_k: int
    """1 if elements along k are nearer to each other than those along the other axis."""


class Result(NamedTuple):
    """The matrix that a kernel writes."""

    address: int
    row_step: int
    column_step: int


class Extents(NamedTuple):
    """Extents of a product."""

    m: int
    n: int
    k: int


class Bias(NamedTuple):
    """A number for each column; where there is none, all fields are 0."""

    address: int
    step: int
    present: int


class Sums(NamedTuple):
    """Arithmetic of the sums."""

    dtype: np.dtype[np.generic]
    zero: np.generic
    fma: Dispatcher
    add: Dispatcher
    scale: Dispatcher


SUMS = {
    "f32": Sums(np.dtype(np.float32), np.float32(0), fma32, fadd, _scale_f32),
    "f64": Sums(np.dtype(np.float64), np.float64(0), fma64, fadd64, _scale_f64),
    "i32": Sums(np.dtype(np.int32), np.int32(0), _imul_add, _iadd, _scale_i32),
}
INPUTS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32", "i8": "i32"}
"""Kinds of the sums by that of the inputs."""

RESULTS = {"f32": "f32", "f16": "f32", "bf16": "f32", "f64": "f64", "i32": "i32"}
"""Kinds of the sums by that of the result."""


def _fill(load: Dispatcher, zero: np.generic, extent: int, depth: int, threads: int) -> Dispatcher:
    """Make the function that loads a tile, k-major, with zeros outside of the matrix."""
    row = extent + _PAD
    turns = extent * depth // threads

    @device_function
    def fill(
        tile: KernelArray,
        first: int,
        source: int,
        step: int,
        k_step: int,
        extent_left: int,
        depth_left: int,
        along_k: int,
    ) -> None:
        for turn in range(turns):
            item = cuda.threadIdx.x + turn * threads
            if along_k:  # threads that are neighbours read what lies next to each other
                i = divide(item, depth)
                k = item - i * depth
            else:
                k = divide(item, extent)
                i = item - k * extent
            value = zero
            if i < extent_left and k < depth_left:
                value = load(source + i * step + k * k_step)
            tile[unsigned(first + k * row + i)] = value

    return fill


def _multiply(fma: Dispatcher, tiling: Tiling) -> Dispatcher:
    """Make the function that adds one k of the tiles to a thread's sums."""
    rows, columns = tiling.thread_rows, tiling.thread_columns
    # A thread's elements lie apart, so that what a warp reads at once is adjacent.
    row_step, column_step = tiling.rows // rows, tiling.columns // columns

    @device_function
    def multiply(total: KernelArray, tile: KernelArray, left_at: int, right_at: int) -> None:
        for i in range(rows):
            left = tile[unsigned(left_at + i * row_step)]
            for j in range(columns):
                right = tile[unsigned(right_at + j * column_step)]
                total[i * columns + j] = fma(left, right, total[i * columns + j])

    return multiply


def _product_kernel(source: str, result: str, tiling: Tiling) -> Dispatcher:
    load, sums = LOADS[source], INPUTS[source]
    load_result, store_result = LOADS[result], STORES[result]
    dtype, zero, fma, add, scale = SUMS[sums]
    threads, depth = tiling.threads, tiling.depth
    fill_left = _fill(load, zero, tiling.rows, depth, threads)
    fill_right = _fill(load, zero, tiling.columns, depth, threads)
    multiply = _multiply(fma, tiling)
    thread_rows, thread_columns = tiling.thread_rows, tiling.thread_columns
    results = thread_rows * thread_columns
    tile_rows, tile_columns = tiling.rows, tiling.columns
    row_step, column_step = tile_rows // thread_rows, tile_columns // thread_columns
    left_row, right_row = tile_rows + _PAD, tile_columns + _PAD
    right_first = left_row * depth

    def product(
        a: Operand,
        b: Operand,
        c: Result,
        extents: Extents,
        alpha: float,
        beta: float,
        bias: Bias,
    ) -> None:
        # A launch passes plain tuples.
        a, b, c, bias = Operand(*a), Operand(*b), Result(*c), Bias(*bias)
        m, n, k = extents
        tile = cuda.shared.array(0, dtype)
        total = cuda.local.array(results, dtype)
        for i in range(results):
            total[i] = zero
        down = divide(cuda.threadIdx.x, column_step)
        along = cuda.threadIdx.x - down * column_step
        row, column = cuda.blockIdx.y * tile_rows, cuda.blockIdx.x * tile_columns
        a_at = a.address + row * a.step
        b_at = b.address + column * b.step
        k_start = 0
        while k_start < k:
            left = k - k_start
            fill_left(tile, 0, a_at, a.step, a.k_step, m - row, left, a.along_k)
            fill_right(tile, right_first, b_at, b.step, b.k_step, n - column, left, b.along_k)
            cuda.syncthreads()
            if left >= depth:
                for step in range(depth):
                    multiply(
                        total, tile, step * left_row + down, right_first + step * right_row + along
                    )
            else:
                for step in range(left):
                    multiply(
                        total, tile, step * left_row + down, right_first + step * right_row + along
                    )
            cuda.syncthreads()
            a_at += depth * a.k_step
            b_at += depth * b.k_step
            k_start += depth
        for i in range(thread_rows):
            at_row = row + down + i * row_step
            for j in range(thread_columns):
                at_column = column + along + j * column_step
                if at_row < m and at_column < n:
                    at = c.address + at_row * c.row_step + at_column * c.column_step
                    before = zero
                    if beta != 0.0:
                        before = load_result(at)
                    value = scale(total[i * thread_columns + j], alpha, beta, before)
                    if bias.present:
                        value = add(value, load_result(bias.address + at_column * bias.step))
                    store_result(at, value)

    return kernel(product)


PRODUCT_KERNELS: dict[tuple[str, str, Tiling], Dispatcher] = {
    (source, result, tiling): _product_kernel(source, result, tiling)
    for source, sums in INPUTS.items()
    for result, wanted in RESULTS.items()
    if sums == wanted
    for tiling in (LARGE, SMALL, TINY)
    if (sums, tiling) != ("f64", LARGE)  # its sums would take all registers
}
"""By dtype of the inputs and of the result, and tiling."""
