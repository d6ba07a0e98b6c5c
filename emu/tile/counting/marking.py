"""Native code that marks what an access of a kernel touches, a run of neighbours at a time.

A kernel tells it of tiles of offsets, as they are: most are runs of consecutive numbers, along the last axis or the one
before. A run is marked in as many steps as it has words of 64 cells. ``plan.Mark`` says what the words of a mark are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from emu.kernels import atomics
from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.tile.counting.plan import (
    BYTES,
    GROUP_WORDS,
    MARK_WORDS,
    MASK_VALUES,
    MEMBER_WORDS,
    MOST_MEMBERS,
    NARROW,
    NONE,
    PREFIX,
    RANGE32,
    SCALAR,
    WIDE,
)
from emu.tile.observing import WORDS_BEFORE

# Words of a mark: see Mark.words().
_KIND, _LANES, _ROW, _MASK, _STEP, _BYTES, _MEMBERS = range(MARK_WORDS)
_ARGUMENT, _UNIT, _IS_READ, _IS_WRITTEN = range(MEMBER_WORDS)
# Words of an argument: see plan.POINTER_WORDS.
_START, _COUNT, _SHIFT, _READ, _WRITTEN, _LINE, _READERS = range(7)

_WORDS: Final = WORDS_BEFORE  # where a record has the address of the launch's words
_GROUP: Final = _WORDS + 1  # the program's group
_VALUES: Final = _WORDS + 2  # offsets, mask, members
_FULL: Final = 0x0101010101010101  # eight lanes of a mask
_ALL: Final = np.int64(-1)


@fixed_intrinsic(types.int64, types.int64)
def trailing_zeros(builder: IrBuilder, word: IrValue) -> IrValue:
    """Return the number of the lowest bit that is set."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))


@jit()
def _word(address: int, number: int) -> int:
    found: int = carray(as_pointer(address), number + 1, np.int64)[number]
    return found


@jit()
def _set(words: Any, at: int, mask: Any) -> None:
    if words[at] & mask != mask:
        atomics.or_(words, at, mask)


@jit()
def set_bits(bits: int, first: int, end: int) -> int:
    """Set the bits from ``first`` to before ``end`` of memory; other threads may set theirs at the same time."""
    if end <= first:
        return 0
    begin, last = first >> 6, end >> 6
    words = carray(as_pointer(bits), last + 1, np.int64)
    head, tail = _ALL << (first & 63), (np.int64(1) << (end & 63)) - 1
    if begin == last:
        _set(words, begin, head & tail)
        return 0
    if first & 63:
        _set(words, begin, head)
        begin += 1
    whole = words[begin:last]
    for at in range(whole.size):
        whole[at] = _ALL
    if end & 63:
        _set(words, last, tail)
    return 0


@jit()
def _set_group(groups: int, lines: tuple[int, int], group: int) -> None:
    """Set the bit of a group of programs, of the lines from one to another."""
    first, last = lines
    words = carray(as_pointer(groups), (last + 1) * GROUP_WORDS, np.int64)
    mask = np.int64(1) << (group & 63)
    for at in range(first * GROUP_WORDS + (group >> 6), words.size, GROUP_WORDS):
        _set(words, at, mask)


@jit()
def count_runs(bits: Any, groups: int, found: Any) -> int:
    """Count the runs of groups that leave a line alone, by their length; those of length 0 not all.

    Args:
        bits: Of each line the bits of the groups that touch it, ``GROUP_WORDS`` words of int64.
        groups: How many there are.
        found: Gets the numbers of runs, int64.

    Returns:
        How many lines are touched by some group.
    """
    total = 0
    for line in range(bits.shape[0]):
        end = 0  # of the run of groups that touch it
        for number in range(GROUP_WORDS):
            word, base = bits[line, number], 64 * number
            if word == _ALL:  # as of a weight that all programs read
                found[base - end] += 1
                end = base + 64
                continue
            while word:
                group = base + trailing_zeros(word)
                found[group - end] += 1
                end = group + 1
                word &= word - 1
        if end:
            found[groups - end] += 1
            total += 1
    return total


@jit()
def _mark_runs(
    words: Any, site: int, record: int, offsets: Any, runs: tuple[int, int, int]
) -> None:
    """Mark runs in the cells of each member.

    Args:
        offsets: Of their first elements: each ``distance``-th.
        runs: The number of runs, ``distance``, and the length of each run.
    """
    count, distance, length = runs
    group = _word(_word(record, _GROUP), 0)
    places = _VALUES + MASK_VALUES[words[site + _MASK]]
    if words[site + _KIND] != SCALAR:
        places += 1
    for number in range(words[site + _MEMBERS]):
        member = site + MARK_WORDS + MEMBER_WORDS * number
        argument = words[member + _ARGUMENT]
        start = _word(_word(record, places + number), 0) - words[argument + _START]
        unit, shift = words[member + _UNIT], words[argument + _SHIFT]
        cells, extent = words[argument + _COUNT], length * words[site + _BYTES]
        for verb in range(2):
            if not words[member + _IS_READ + verb]:
                continue
            bits = words[argument + _READ + verb]
            line, groups = words[argument + _LINE], words[argument + _READERS]
            for run in range(count):
                begin = start + offsets[run * distance] * unit
                behind = (begin + extent + (1 << shift) - 1) >> shift
                first, end = max(0, begin >> shift), min(cells, behind)
                set_bits(bits, first, end)
                if verb == 0 and end > first:
                    lines = first << shift >> line, (end << shift) - 1 >> line
                    _set_group(groups, lines, group)


@jit()
def _mark_run(words: Any, site: int, record: int, first: Any, length: int) -> None:
    """Mark ``length`` elements from offset ``first`` on, in the cells of each member."""
    if length:
        _mark_runs(words, site, record, (first,), (1, 1, length))


@jit()
def _breaks(before: Any, behind: Any, step: int) -> int:
    """Return how often two elements, of arrays of the same size, do not differ by a step."""
    count = 0
    for j in range(before.size):  # from 0 and by whole arrays, for then it becomes vector code
        count += (behind[j] - before[j]) != step
    return count


@jit()
def _has_all(mask: Any, lanes: int) -> bool:
    words = carray(as_pointer(mask), lanes // 8, np.int64)
    both = np.int64(_FULL)
    for j in range(words.size):
        both &= words[j]
    rest = carray(as_pointer(mask), lanes, np.uint8)
    for j in range(lanes // 8 * 8, lanes):
        both &= _FULL if rest[j] else 0
    return bool(both == _FULL)


@jit()
def _mark_masked_run(words: Any, site: int, record: int, run: tuple[Any, int], mask: int) -> None:
    """Mark of a run (first offset, length) what a mask, whose bytes lie at an address, lets through."""
    first, length = run
    step = words[site + _STEP]
    lanes = carray(as_pointer(mask), length, np.uint8)
    begin = 0
    while begin < length:
        while begin < length and not lanes[begin]:
            begin += 1
        end = begin
        while end + 8 <= length and _word(mask + end, 0) == _FULL:
            end += 8
        while end < length and lanes[end]:
            end += 1
        _mark_run(words, site, record, first + begin * step, end - begin)
        begin = end


@jit()
def _mark_range(words: Any, site: int, record: int, first: int, lanes: tuple[int, int]) -> None:
    """Mark consecutive offsets of the lanes from one to before another; ``first`` is that of lane 0."""
    begin, end = lanes
    if words[site + _KIND] == RANGE32:  # from some lane on it has wrapped
        wrap = (1 << 31) - first
        if end > wrap:
            behind = max(begin, wrap)
            _mark_run(words, site, record, first + behind - (1 << 32), max(0, end - behind))
            end = wrap
    _mark_run(words, site, record, first + begin, max(0, end - begin))


@jit()
def _mark_consecutive(words: Any, site: int, record: int) -> None:
    """Mark a range of offsets."""
    first, lanes = _word(_word(record, _VALUES), 0), words[site + _LANES]
    mask = _word(record, _VALUES + 1)
    kind = words[site + _MASK]
    if kind == NONE:
        _mark_range(words, site, record, first, (0, lanes))
    elif kind == PREFIX:
        before, wrap, behind = (
            _word(mask, 0),
            _word(_word(record, _VALUES + 2), 0),
            _word(_word(record, _VALUES + 3), 0),
        )
        _mark_range(words, site, record, first, (0, before))
        _mark_range(words, site, record, first, (wrap, wrap + behind))
    elif words[site + _KIND] == RANGE32 and first + lanes > 1 << 31:
        lets = carray(as_pointer(mask), lanes, np.uint8)
        for j in range(lanes):
            _mark_range(words, site, record, first, (j, j + lets[j]))
    else:
        _mark_masked_run(words, site, record, (first, lanes), mask)


@jit()
def _mark_each(words: Any, site: int, record: int, offsets: Any, order: tuple[int, int]) -> None:
    """Mark elements one by one, those of an axis together.

    Args:
        order: Distance of elements along that axis, and how many there are.
    """
    lanes, step = words[site + _LANES], words[site + _STEP]
    is_masked = words[site + _MASK] == BYTES
    mask = carray(as_pointer(_word(record, _VALUES + 1)), lanes, np.uint8)
    distance, extent = order
    first, length = np.int64(0), 0  # the run that was found last
    for start in range(lanes // extent):
        begin = start if distance > 1 else start * extent
        for number in range(extent):
            j = begin + number * distance
            if is_masked and not mask[j]:
                continue
            if length == 0 or offsets[j] != first + length * step:
                _mark_run(words, site, record, first, length)
                first, length = np.int64(offsets[j]), 0
            length += 1
    _mark_run(words, site, record, first, length)


@jit()
def _mark_tile(words: Any, site: int, record: int, offsets: Any) -> None:
    """Mark a tile of offsets: by its rows or columns, if these are runs."""
    lanes, row, step = words[site + _LANES], words[site + _ROW], words[site + _STEP]
    mask = _word(record, _VALUES + 1)
    is_masked = words[site + _MASK] == BYTES and not _has_all(mask, lanes)
    if row < lanes and offsets[row] - offsets[0] == step:
        if is_masked or _breaks(offsets[:-row], offsets[row:], step):
            _mark_each(words, site, record, offsets, (row, lanes // row))
            return
        _mark_runs(words, site, record, offsets, (row, 1, lanes // row))
        return
    breaks = _breaks(offsets[:-1], offsets[1:], step)
    for j in range(row, lanes, row):
        breaks -= (offsets[j] - offsets[j - 1]) != step
    if breaks:
        _mark_each(words, site, record, offsets, (1, row))
        return
    if not is_masked:
        _mark_runs(words, site, record, offsets, (lanes // row, row, row))
        return
    for j in range(0, lanes, row):
        _mark_masked_run(words, site, record, (np.int64(offsets[j]), row), mask + j)


@jit()
def mark(site: int, record: int) -> int:
    """Mark what an access touches.

    Args:
        site: Number of the first word of the mark, among those of the launch.
        record: Address of the record of an OBSERVE: the function and the launch's words, the offsets if there are any, the mask if
            there is one, and the address of each member.
    """
    address = _word(_word(record, _WORDS), 0)
    words = carray(as_pointer(address), site + MARK_WORDS + MEMBER_WORDS * MOST_MEMBERS, np.int64)
    lanes, kind = words[site + _LANES], words[site + _KIND]
    if kind == SCALAR:
        mask = carray(as_pointer(_word(record, _VALUES)), 1, np.uint8)
        if words[site + _MASK] == NONE or mask[0]:
            _mark_run(words, site, record, 0, 1)
    elif kind == NARROW:
        narrow = carray(as_pointer(_word(record, _VALUES)), lanes, np.int32)
        _mark_tile(words, site, record, narrow)
    elif kind == WIDE:
        wide = carray(as_pointer(_word(record, _VALUES)), lanes, np.int64)
        _mark_tile(words, site, record, wide)
    else:
        _mark_consecutive(words, site, record)
    return 0
