"""SET and ADD of an N-d tile into strided device memory.

A tile is walked in units: 16 bytes where both sides are contiguous and aligned, else the widest
power of two that is, else an element. Sums of 16-bit floats are taken in fp32 and rounded once.
Everything runs on the default stream, after what was put there before.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import cuda

from emu.kernels.core.annotations import Bits, Dispatcher
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import BF16, BOOL, F16, F32, F64, KINDS
from emu.kernels.cuda import lanes
from emu.kernels.cuda.arrays import place
from emu.kernels.cuda.checks import check_tile
from emu.kernels.cuda.device import cover, device_function, kernel, launch
from emu.kernels.cuda.geometry import WIDEST, Outer, few_offsets, many_offsets, walks
from emu.kernels.cuda.primitives import (
    add_f64_at,
    add_u32_at,
    add_u64_at,
    as_f64,
    cas_u32,
    load_8,
    load_16,
    load_32,
    load_64,
    load_128,
    store_8,
    store_16,
    store_32,
    store_64,
    store_128,
)

Pair: TypeAlias = tuple[Bits, Bits]


@device_function
def _store_pair(address: int, pair: Pair) -> None:
    store_128(address, pair[0], pair[1])


_ACCESS = {
    1: (load_8, store_8),
    2: (load_16, store_16),
    4: (load_32, store_32),
    8: (load_64, store_64),
    WIDEST: (load_128, _store_pair),
}
_SUMS = {BOOL: "bool", F16: "f16", BF16: "bf16", F32: "f32", F64: "f64"}
_OFFSETS = {True: few_offsets, False: many_offsets}


def _set_kernel(unit: int, few: bool) -> Dispatcher:
    load, store = _ACCESS[unit]
    offsets = _OFFSETS[few]

    def set_units(
        target: int, source: int, count: int, t_step: int, s_step: int, rows: int, outer: Outer
    ) -> None:
        width = cuda.blockDim.x * cuda.gridDim.x
        first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        while row < rows:
            t, s = offsets(row, outer)
            t += target + first * t_step
            s += source + first * s_step
            i = first
            # Four loads are under way before the first store, which the compiler may not pass.
            while i + 3 * width < count:
                a = load(s)
                b = load(s + width * s_step)
                c = load(s + 2 * width * s_step)
                d = load(s + 3 * width * s_step)
                store(t, a)
                store(t + width * t_step, b)
                store(t + 2 * width * t_step, c)
                store(t + 3 * width * t_step, d)
                t += 4 * width * t_step
                s += 4 * width * s_step
                i += 4 * width
            while i < count:
                store(t, load(s))
                t += width * t_step
                s += width * s_step
                i += width
            row += cuda.blockDim.y * cuda.gridDim.y

    return kernel(set_units)


def _add_kernel(add: Dispatcher, unit: int, few: bool) -> Dispatcher:
    load, store = _ACCESS[unit]
    offsets = _OFFSETS[few]

    def add_units(
        target: int,
        source: int,
        count: int,
        t_step: int,
        s_step: int,
        rows: int,
        outer: Outer,
        mask: int,
    ) -> None:
        width = cuda.blockDim.x * cuda.gridDim.x
        first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        while row < rows:
            t, s = offsets(row, outer)
            t += target + first * t_step
            s += source + first * s_step
            i = first
            while i + width < count:  # two at a time: four loads before the first store
                a = load(t)
                b = load(s)
                c = load(t + width * t_step)
                d = load(s + width * s_step)
                store(t, add(a, b, mask))
                store(t + width * t_step, add(c, d, mask))
                t += 2 * width * t_step
                s += 2 * width * s_step
                i += 2 * width
            if i < count:
                store(t, add(load(t), load(s), mask))
            row += cuda.blockDim.y * cuda.gridDim.y

    return kernel(add_units)


def _pairwise(add: Dispatcher) -> Dispatcher:
    @device_function
    def both(a: Pair, b: Pair, mask: Bits) -> Pair:
        return add(a[0], b[0], mask), add(a[1], b[1], mask)

    return both


def _add_word(itemsize: int, add: Dispatcher) -> Dispatcher:
    """Make the atomic sum of an element of 1, 2 or 4 bytes: compare and swap on its 32-bit word."""
    load, _ = _ACCESS[itemsize]
    low = np.uint64((1 << 8 * itemsize) - 1)

    @device_function
    def add_word(target: int, source: int, mask: int) -> None:
        value = load(source)
        word = target & ~3
        shift = np.uint64(8 * (target & 3))
        old = np.uint64(load_32(word))
        while True:
            new = np.uint64(add((old >> shift) & low, value, mask)) & low
            seen = np.uint64(cas_u32(word, old, (old & ~(low << shift)) | (new << shift)))
            if seen == old:
                return
            old = seen

    return add_word


@device_function
def _add_i32(target: int, source: int, mask: int) -> None:
    add_u32_at(target, load_32(source))


@device_function
def _add_i64(target: int, source: int, mask: int) -> None:
    add_u64_at(target, load_64(source))


@device_function
def _add_f64(target: int, source: int, mask: int) -> None:
    add_f64_at(target, as_f64(load_64(source)))


def _atomic_add_kernel(add_one: Dispatcher, few: bool) -> Dispatcher:
    offsets = _OFFSETS[few]

    def atomic_add_units(
        target: int,
        source: int,
        count: int,
        t_step: int,
        s_step: int,
        rows: int,
        outer: Outer,
        mask: int,
    ) -> None:
        width = cuda.blockDim.x * cuda.gridDim.x
        first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        while row < rows:
            t, s = offsets(row, outer)
            t += target
            s += source
            i = first
            while i < count:
                add_one(t + i * t_step, s + i * s_step, mask)
                i += width
            row += cuda.blockDim.y * cuda.gridDim.y

    return kernel(atomic_add_units)


_SIZES: dict[str, tuple[int, ...]] = {
    "int": (1, 2, 4, 8),
    "bool": (1,),
    "f16": (2,),
    "bf16": (2,),
    "f32": (4,),
    "f64": (8,),
}


def _atomic_sum(kind: str, itemsize: int) -> Dispatcher:
    if kind == "int" and itemsize >= 4:
        return _add_i32 if itemsize == 4 else _add_i64
    # The device's own fp32 sum in global memory flushes subnormal numbers; this one keeps them.
    return _add_f64 if kind == "f64" else _add_word(itemsize, lanes.ONE[kind])


UNITS = tuple(_ACCESS)
"""Widths of an access, in bytes."""

_BOTH = (True, False)
SET_KERNELS: dict[tuple[int, bool], Dispatcher] = {
    (unit, few): _set_kernel(unit, few) for unit in UNITS for few in _BOTH
}
"""By unit, and whether few outer axes are walked. All take what ``Walk.arguments`` returns."""

ADD_KERNELS: dict[tuple[str, int, bool], Dispatcher] = {
    **{
        (kind, unit, few): _add_kernel(lanes.ONE[kind], unit, few)
        for kind, sizes in _SIZES.items()
        for unit in sizes
        for few in _BOTH
    },
    **{
        (kind, WIDEST, few): _add_kernel(_pairwise(lanes.EIGHT_BYTES[kind]), WIDEST, few)
        for kind in _SIZES
        for few in _BOTH
    },
}
"""By kind of sum, unit, and whether few outer axes are walked; they take a mask as well."""

ATOMIC_KERNELS: dict[tuple[str, int, bool], Dispatcher] = {
    (kind, size, few): _atomic_add_kernel(_atomic_sum(kind, size), few)
    for kind, sizes in _SIZES.items()
    for size in sizes
    for few in _BOTH
}
"""The same, adding each element by itself."""


def set_tile(target: object, source: object) -> None:
    """Copy a tile into strided device memory.

    Args:
        target: Where to; rank 1 to 8, any strides, negative ones too, as long as no element lies on
            another.
        source: What; of the target's shape and dtype, any strides. It shares no memory with
            ``target``.

    Raises:
        ArgumentError: An argument is in host memory, or shapes, dtypes, rank or strides are not
            as above. Nothing was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    to, what = place(target, "target"), place(source, "source")
    check_tile(to, what)
    if to.size == 0:
        return
    for walk in walks(to, what, UNITS):
        launch(
            SET_KERNELS[walk.unit, walk.few],
            *cover(walk.inner[0], walk.rows),
            *walk.arguments(),
            touches=(to.window, what.window),
        )


def add_tile(target: object, source: object, *, atomic: bool = False) -> None:
    """Add a tile to one in strided device memory.

    Integers wrap, booleans are or-ed, fp16 and bf16 are added in fp32 and rounded once, to
    nearest, ties to even.

    Args:
        target: Where to; rank 1 to 8, any strides, negative ones too, as long as no element lies on
            another.
        source: What; of the target's shape and dtype, any strides. It shares no memory with
            ``target``.
        atomic: Add each element by an atomic update, so that several kernels may add to the same
            tile at once. Others' plain stores are not kept apart.

    Raises:
        ArgumentError: An argument is in host memory, or shapes, dtypes, rank or strides are not
            as above. Nothing was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    to, what = place(target, "target"), place(source, "source")
    check_tile(to, what, sums=True)
    atomic = check.flag("atomic", atomic)
    if to.size == 0:
        return
    kind = _SUMS.get(KINDS[to.dtype], "int")
    mask = lanes.int_mask(to.itemsize)
    units: tuple[int, ...] = (to.itemsize, WIDEST)
    touched = to.window
    if atomic:
        units, touched = (to.itemsize,), (touched[0] & ~3, -(-touched[1] & ~3))
    for walk in walks(to, what, units):
        kernels = ATOMIC_KERNELS if atomic else ADD_KERNELS
        launch(
            kernels[kind, walk.unit, walk.few],
            *cover(walk.inner[0], walk.rows),
            *walk.arguments(),
            mask,
            touches=(touched, what.window),
        )


__all__ = ["add_tile", "set_tile"]
