"""Copy past the caches: for results larger than them, which no one reads soon.

A plain store to memory that is not in the cache first fetches the line, and pushes out another that may
still be needed. A non-temporal store does neither: measured, two processes that fill large arrays
from cached sources go up to twice as fast (docs/machine.md has the machine). A target that fits in the
cache and is read next is better copied plainly.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from emu.kernels.core.address import emit_prefetch, move_bytes
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.jit import fixed_intrinsic, jit

_VECTOR, _STEP, _LINE = 32, 128, 64
_AHEAD = 4096  # bytes that the prefetches run ahead of the loads: a page, whose lookup is slow too


def _emit_step(builder: IrBuilder, target: IrValue, source: IrValue, kept: IrValue | None) -> None:
    """Copy ``_STEP`` bytes to an aligned target with non-temporal stores, and to ``kept`` with plain ones."""
    i32, i64 = ir.IntType(32), ir.IntType(64)
    vector = ir.VectorType(i64, _VECTOR // 8)

    def at(base: IrValue, offset: int) -> IrValue:
        address = builder.add(base, ir.Constant(i64, offset))
        return builder.inttoptr(address, vector.as_pointer())

    for line in range(0, _STEP, _LINE):
        emit_prefetch(builder, builder.add(source, ir.Constant(i64, _AHEAD + line)), False)
    offsets = range(0, _STEP, _VECTOR)
    parts = []
    for offset in offsets:
        part = builder.load(at(source, offset))
        part.align = 1
        parts.append(part)
    hint = builder.module.add_metadata([ir.Constant(i32, 1)])
    for offset, part in zip(offsets, parts, strict=True):
        if kept is not None:
            builder.store(part, at(kept, offset)).align = 1
        store = builder.store(part, at(target, offset))
        store.align = _VECTOR
        store.set_metadata("nontemporal", hint)


@fixed_intrinsic(types.void, types.int64, types.int64)
def _copy_step(builder: IrBuilder, target: IrValue, source: IrValue) -> None:
    _emit_step(builder, target, source, None)


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64)
def _copy_twice_step(builder: IrBuilder, target: IrValue, source: IrValue, kept: IrValue) -> None:
    _emit_step(builder, target, source, kept)


@jit()
def stream_bytes(target: int, source: int, count: int) -> None:
    """Copy ``count`` bytes between ranges that don't overlap.

    Others see the stores in order only behind a fence (``emu.kernels.atomics.fence``).
    """
    head = -target & (_LINE - 1)
    if count < head + _STEP:
        move_bytes(target, source, count)
        return
    move_bytes(target, source, head)
    steps = (count - head) // _STEP
    for step in range(steps):
        _copy_step(target + head + step * _STEP, source + head + step * _STEP)
    done = head + steps * _STEP
    move_bytes(target + done, source + done, count - done)


@jit()
def stream_bytes_twice(target: int, kept: int, source: int, count: int) -> None:
    """:func:`stream_bytes` to ``target``, and a plain copy to ``kept`` at the same time."""
    head = -target & (_LINE - 1)
    if count < head + _STEP:
        move_bytes(kept, source, count)
        move_bytes(target, source, count)
        return
    move_bytes(kept, source, head)
    move_bytes(target, source, head)
    steps = (count - head) // _STEP
    for step in range(steps):
        at = head + step * _STEP
        _copy_twice_step(target + at, source + at, kept + at)
    done = head + steps * _STEP
    move_bytes(kept + done, source + done, count - done)
    move_bytes(target + done, source + done, count - done)


__all__ = ["stream_bytes", "stream_bytes_twice"]
