"""Locks of heap regions, which make the ADD of a tile atomic against every other ADD.

Measured (docs/machine.md): a lock and a plain vector loop beat one atomic instruction per element by
12 to 31 times, and with 64 KiB under one lock, and each PE starting elsewhere in the tile, two PEs
that add into one tile don't disturb each other. So each 64 KiB of a heap is a region; regions share
2,048 lock words by a hash (sharing one costs time, never the result).

A lock word holds 0 when free, else the owner's PE number plus one, and a bit that is set while a PE
sleeps on it. Taking a lock spins shortly, then sleeps. A sleeper that finds the owner dead takes
the lock over and reports it: the region may be half written.

Counters are different: ``fetch_add`` and signals use single atomic instructions without a lock. So
that a tile ADD of integers is atomic against those too, the first atomic instruction in a region
takes the region's lock once and sets a flag; where the flag is set, integer tiles are added
by atomic instructions from then on. Regions that hold only data never pay for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.layout import (
    B_BLOCKS,
    B_HEAPS,
    B_LOCKS,
    B_N_PES,
    B_PE,
    B_SEGMENT,
    B_SLICE_S,
    B_SPINS,
    B_STATE,
    B_STRIDE,
    BLOCK_BYTES,
    FINISHED,
    H_RECOVERED,
    H_RECOVERED_FROM,
    LINE,
    LOCK_OWNER_MASK,
    LOCK_WAITERS,
    LOCKS,
    REGION_BITS,
)
from emu.comm.sync.futex import futex_wait, futex_wake, pause, sched_yield
from emu.kernels.atomics import (
    add_i32,
    add_i64,
    compare_exchange_i32,
    exchange_i32,
    load_i32,
    load_i64,
    store_i32,
    store_i64,
)
from emu.kernels.core.address import as_pointer
from emu.kernels.core.dtypes import I32, I64
from emu.kernels.core.jit import carray, jit
from emu.kernels.strided.access_plan import Axis
from emu.kernels.strided.add import add_row
from emu.kernels.strided.contiguous import add_contiguous, add_contiguous_atomic
from emu.kernels.strided.odometer import (
    advance,
    inner_loop,
    repeats,
    set_odometer,
    stack_counters,
)

_YIELDS = 8


@jit()
def word(me: int, index: int) -> Any:
    """Read a word of the PE block at ``me``; for words that no other PE writes."""
    return carray(as_pointer(me), (32,), np.int64)[index]


@jit()
def lock_address(me: int, pe: int, offset: int) -> Any:
    """Return the address of the lock of the region that holds ``offset`` in PE ``pe``'s heap."""
    region = (pe * word(me, B_STRIDE) + offset) >> REGION_BITS
    # Neighbouring regions get neighbouring locks; heaps are spread by an odd factor.
    return word(me, B_LOCKS) + ((region + pe * 37) % LOCKS) * LINE


@jit()
def _owner_is_gone(me: int, held: int) -> Any:
    owner = (held & LOCK_OWNER_MASK) - 1
    if owner < 0 or owner >= word(me, B_N_PES):
        return False
    block = word(me, B_BLOCKS) + owner * BLOCK_BYTES
    # One that was stopped by an exception while it held the lock is FINISHED, and as gone.
    return load_i64(block + 8 * B_STATE) >= FINISHED


@jit()
def _take_over(me: int, address: int, held: int) -> bool:
    mine = np.int32(word(me, B_PE) + 1)
    if compare_exchange_i32(address, held, np.int32(mine | LOCK_WAITERS)) != held:
        return False
    segment = word(me, B_SEGMENT)
    add_i64(segment + 8 * H_RECOVERED, 1)
    store_i64(segment + 8 * H_RECOVERED_FROM, np.int64(held & LOCK_OWNER_MASK))
    return True


@jit()
def acquire(me: int, address: int) -> bool:
    """Take the lock; return whether it had to be recovered from a PE that died with it."""
    mine = np.int32(word(me, B_PE) + 1)
    if compare_exchange_i32(address, np.int32(0), mine) == 0:
        return False
    spins = 100 if word(me, B_SPINS) > 0 else 0
    for spin in range(spins + _YIELDS):
        if load_i32(address) == 0 and compare_exchange_i32(address, np.int32(0), mine) == 0:
            return False
        if spin < spins:
            pause()
        else:
            sched_yield()
    while True:
        # From here on the bit stays set: others may sleep too, and a needless wake costs little.
        held = load_i32(address)
        if held == 0:
            if compare_exchange_i32(address, np.int32(0), np.int32(mine | LOCK_WAITERS)) == 0:
                return False
            continue
        marked = np.int32(held | LOCK_WAITERS)
        if held != marked and compare_exchange_i32(address, held, marked) != held:
            continue
        futex_wait(address, marked, me + 8 * B_SLICE_S)
        held = load_i32(address)
        if held != 0 and _owner_is_gone(me, held) and _take_over(me, address, held):
            return True


@jit()
def release(address: int) -> None:
    """Release the lock and wake one sleeper if there is any."""
    if exchange_i32(address, np.int32(0)) & LOCK_WAITERS:
        futex_wake(address, 1)


@jit()
def mark_atomic(me: int, pe: int, offset: int) -> None:
    """Note that single atomic instructions are used in this region; see the head of this file."""
    address = lock_address(me, pe, offset)
    if load_i32(address + 4) == 0:
        acquire(me, address)
        store_i32(address + 4, np.int32(1))
        release(address)


@jit()
def add_range(me: int, pe: int, offset: int, source: int, kind: int, size: int, nbytes: int) -> int:
    """Add a contiguous range that may span regions, region by region, starting at the PE's own share of them.

    Returns:
        1 if a lock had to be recovered from a dead PE.
    """
    first = offset >> REGION_BITS
    regions = ((offset + nbytes - 1) >> REGION_BITS) - first + 1
    start = (word(me, B_PE) * regions) // word(me, B_N_PES)
    base = word(me, B_HEAPS) + pe * word(me, B_STRIDE)
    recovered = 0
    for step in range(regions):
        region = first + (start + step) % regions
        low = max(offset, region << REGION_BITS)
        high = min(offset + nbytes, (region + 1) << REGION_BITS)
        address = lock_address(me, pe, low)
        recovered |= int(acquire(me, address))
        if kind in (I32, I64) and load_i32(address + 4) != 0:
            add_contiguous_atomic(kind, base + low, source + low - offset, (high - low) // size)
        else:
            add_contiguous(kind, base + low, source + low - offset, (high - low) // size)
        release(address)
    return recovered


@jit()
def _add_row(
    kind: int,
    atomic: bool,
    size: int,
    target: int,
    source: int,
    columns: Axis,
) -> None:
    if not atomic:
        add_row(kind, size, target, source, columns)
    elif kind == I32:
        for i in range(columns.extent):
            value = carray(as_pointer(source + i * columns.source), (1,), np.int32)[0]
            add_i32(target + i * columns.target, value)
    else:
        for i in range(columns.extent):
            value = carray(as_pointer(source + i * columns.source), (1,), np.int64)[0]
            add_i64(target + i * columns.target, value)


@jit()
def add_rows(me: int, pe: int, offset: int, source: int, kind: int, plan: int) -> int:
    """Add a strided tile in the order of its rows, starting at the PE's own share of them.

    A lock is held from the first element in its region to the last before another region: rows
    share it, a row that reaches into the next region is cut there.

    Args:
        me: Address of this PE's block.
        pe: PE that holds the target.
        offset: Of the tile's first element in its heap.
        source: Address of the first element to add.
        kind: Arithmetic kind of the elements.
        plan: Address of an ordered :func:`emu.kernels.strided.access_plan.add_plan`.

    Returns:
        1 if a lock had to be recovered from a dead PE.
    """
    loop, runs = inner_loop(plan), repeats(plan)
    rows, columns = loop.rows, loop.columns
    base = word(me, B_HEAPS) + pe * word(me, B_STRIDE)
    counters = stack_counters()
    t, s = set_odometer(counters, plan, word(me, B_PE) * runs // word(me, B_N_PES))
    row = 0 if runs > 1 else word(me, B_PE) * rows.extent // word(me, B_N_PES)
    held, lock = -1, 0
    atomic = False
    recovered = 0
    for _ in range(runs):
        for _ in range(rows.extent):
            at, origin, left = (
                offset + t + row * rows.target,
                source + s + row * rows.source,
                columns.extent,
            )
            while left > 0:
                region = at >> REGION_BITS
                if region != held:
                    if held >= 0:
                        release(lock)
                    lock = lock_address(me, pe, at)
                    recovered |= int(acquire(me, lock))
                    held = region
                    atomic = kind in (I32, I64) and load_i32(lock + 4) != 0
                n = left
                if (at + (left - 1) * columns.target) >> REGION_BITS != region:
                    room = ((region + 1) << REGION_BITS) - at
                    n = (room + columns.target - 1) // columns.target
                part = Axis(n, columns.target, columns.source)
                _add_row(kind, atomic, loop.width, base + at, origin, part)
                at += n * columns.target
                origin += n * columns.source
                left -= n
            row = row + 1 if row + 1 < rows.extent else 0
        t, s = advance(counters, plan, t, s)
    if held >= 0:
        release(lock)
    return recovered
