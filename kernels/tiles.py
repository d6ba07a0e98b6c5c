"""Move and add runs of elements at raw addresses: the inner loops of tiled stores.

A tile is a list of *runs*: contiguous stretches of equal length, found by :func:`plan`, whose
starts lie on a grid of outer strides. A dense tile is one run, a rectangle in a wider array one run
a row. The loops here take one run; who calls decides what is locked around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.address import as_pointer, move_bytes
from emu.kernels.atomics import add_i32, add_i64
from emu.kernels.dtypes import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    bf16_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
)
from emu.kernels.jit import carray, jit

Runs = tuple[int, tuple[tuple[int, int, int], ...]]


def plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
) -> Runs:
    """Split a tile into runs that are contiguous on both sides.

    Args:
        shape: Extent along each axis, in elements.
        target_strides: Strides of the target in bytes.
        source_strides: Strides of the source in bytes.
        itemsize: Bytes in an element.

    Returns:
        ``(run, outer)``: the elements in a run, and ``(extent, target stride, source stride)`` of
        each outer axis that is left, first axis first. Axes that continue each other are joined.
    """
    run = 1
    outer: list[tuple[int, int, int]] = []
    for extent, target, source in zip(
        reversed(shape), reversed(target_strides), reversed(source_strides), strict=True
    ):
        if extent == 1:
            continue
        if not outer and target == source == run * itemsize:
            run *= extent
        elif (
            outer
            and target == outer[-1][0] * outer[-1][1]
            and source == outer[-1][0] * outer[-1][2]
        ):
            inner = outer[-1]
            outer[-1] = (inner[0] * extent, inner[1], inner[2])
        else:
            outer.append((extent, target, source))
    outer.reverse()
    return run, tuple(outer)


@jit()
def _add_f16(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint16)
    s = carray(as_pointer(source), (count,), np.uint16)
    for i in range(count):
        d[i] = f32_to_f16(f16_to_f32(d[i]) + f16_to_f32(s[i]))


@jit()
def _add_bf16(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint16)
    s = carray(as_pointer(source), (count,), np.uint16)
    for i in range(count):
        d[i] = f32_to_bf16(bf16_to_f32(d[i]) + bf16_to_f32(s[i]))


@jit()
def _add_bool(target: int, source: int, count: int) -> None:
    d = carray(as_pointer(target), (count,), np.uint8)
    s = carray(as_pointer(source), (count,), np.uint8)
    for i in range(count):
        d[i] |= s[i]


@jit(inline="always")
def _add_plain(d: Any, s: Any, count: int) -> None:
    for i in range(count):
        d[i] += s[i]


@jit()
def add_run(kind: int, target: int, source: int, count: int) -> None:
    """Add ``count`` elements at address ``source`` to those at ``target``; plain loads and stores.

    Args:
        kind: Arithmetic kind of the elements (:mod:`emu.kernels.dtypes`). Integers wrap, booleans
            are or-ed, fp16 and bf16 are added in fp32 and rounded once.
        target: Address of the first element to change.
        source: Address of the first element to add; may equal ``target``.
        count: Number of elements.
    """
    t, s, n = target, source, count
    if kind == F32:
        _add_plain(
            carray(as_pointer(t), (n,), np.float32),
            carray(as_pointer(s), (n,), np.float32),
            n,
        )
    elif kind == BF16:
        _add_bf16(t, s, n)
    elif kind == F16:
        _add_f16(t, s, n)
    elif kind == I32:
        _add_plain(
            carray(as_pointer(t), (n,), np.int32),
            carray(as_pointer(s), (n,), np.int32),
            n,
        )
    elif kind == F64:
        _add_plain(
            carray(as_pointer(t), (n,), np.float64),
            carray(as_pointer(s), (n,), np.float64),
            n,
        )
    elif kind == I64:
        _add_plain(
            carray(as_pointer(t), (n,), np.int64),
            carray(as_pointer(s), (n,), np.int64),
            n,
        )
    elif kind == I16:
        _add_plain(
            carray(as_pointer(t), (n,), np.int16),
            carray(as_pointer(s), (n,), np.int16),
            n,
        )
    elif kind == I8:
        _add_plain(
            carray(as_pointer(t), (n,), np.int8),
            carray(as_pointer(s), (n,), np.int8),
            n,
        )
    elif kind == BOOL:
        _add_bool(t, s, n)


@jit()
def add_run_atomic(kind: int, target: int, source: int, count: int) -> None:
    """As :func:`add_run` for 32- and 64-bit integers, each element by one atomic instruction."""
    if kind == I32:
        s32 = carray(as_pointer(source), (count,), np.int32)
        for i in range(count):
            add_i32(target + 4 * i, s32[i])
    elif kind == I64:
        s64 = carray(as_pointer(source), (count,), np.int64)
        for i in range(count):
            add_i64(target + 8 * i, s64[i])


@jit()
def outer_offsets(index: int, outer: Any, rank: int) -> Any:
    """Return (target, source) byte offsets of run ``index`` of a tile; ``outer`` is flat triples."""
    target = 0
    source = 0
    rest = index
    for axis in range(rank - 1, -1, -1):
        extent = outer[3 * axis]
        step = rest % extent
        rest //= extent
        target += step * outer[3 * axis + 1]
        source += step * outer[3 * axis + 2]
    return target, source


@jit()
def copy_runs(target: int, source: int, run_bytes: int, count: int, outer: Any, rank: int) -> None:
    """Copy a tile of ``count`` runs; nothing tears an aligned element."""
    for index in range(count):
        t, s = outer_offsets(index, outer, rank)
        move_bytes(target + t, source + s, run_bytes)
