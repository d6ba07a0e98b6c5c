"""Combine runs of elements of several PEs into one: the inner loop of reductions.

All arguments are integers: dtype and operation are numbers, sources and targets addresses. The loop
goes block by block, and within a block each few cache lines of all sources are combined in registers, in
the order given. Thus a result depends on the sources and their order only, never on how the work was
cut.

What the operations mean:

* integers wrap; bool has or (``SUM``, ``MAX``) and and (``PROD``, ``MIN``);
* fp32 and fp64 are combined in their own precision, fp16 and bf16 in fp32 and rounded once at the end;
* ``MAX`` and ``MIN`` give NaN where any source holds NaN; of equal values the first counts;
* ``AVG`` is the sum divided by the number of sources, before that last rounding.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.atomics import fence
from emu.kernels.core.address import as_pointer, move_bytes
from emu.kernels.core.annotations import CArray
from emu.kernels.core.dtypes import BFLOAT16, DTYPES
from emu.kernels.core.jit import carray, jit
from emu.kernels.elementwise.combine import (
    AVG,
    MAX,
    MIN,
    OPS,
    PROD,
    STEP,
    SUM,
    Arguments,
    combine_steps,
)
from emu.kernels.stream import stream_bytes

CODES: dict[np.dtype[np.generic], int] = {dtype: code for code, dtype in enumerate(DTYPES)}
"""Every dtype of the symmetric heap with its number here: unlike the arithmetic kinds of
``emu.kernels.core.dtypes.KINDS`` these tell signed from unsigned, as a maximum must."""

BLOCK = 2048
"""Elements combined at a time."""

_GROUP = 8
"""Sources combined at a time: their blocks, and those that are fetched ahead, fit into the second-level cache."""

# Parts of the private memory; what begins where.
_RESULT = 8 * BLOCK
_TAILS = _RESULT + 8 * BLOCK
_TABLE = _TAILS + _GROUP * STEP
_WORDS = _TABLE + 8 * 2 * _GROUP
_N_WORDS = len(Arguments._fields)

SCRATCH_BYTES = _WORDS + 8 * _N_WORDS
"""Private memory a reduction needs: accumulators, a result, tails of sources, and addresses."""

# Numba freezes these into the code.
_SOURCES, _FOLLOWING, _COUNT, _OFFSET, _AHEAD, _NBYTES = range(6)
_SUMS, _TARGET, _RESUMES, _ENDS, _MEMBERS, _PAST = range(6, 12)


def supports(op: int, dtype: np.dtype[np.generic]) -> bool:
    """Return whether ``op`` is defined for ``dtype``: ``AVG`` is for floating point only."""
    return op != AVG or dtype == BFLOAT16 or dtype.kind == "f"


@jit()
def _combine_block(
    code: int, op: int, sources: CArray, offset: int, ahead: int, nbytes: int, scratch: int
) -> None:
    """Combine whole steps of all sources, a group of them at a time.

    While a group is read, what comes next is fetched: the same block of the next group, or behind the last
    group the next block.

    Args:
        code: Number of the dtype.
        op: Number of the operation.
        sources: Addresses.
        offset: Bytes from the sources' addresses to the block.
        ahead: Bytes from the sources' addresses to the next block.
        nbytes: Bytes of the block.
        scratch: Address of private memory, whose words say all the rest.
    """
    table = carray(as_pointer(scratch + _TABLE), (2 * _GROUP,), np.int64)
    words = carray(as_pointer(scratch + _WORDS), (_N_WORDS,), np.int64)
    words[_NBYTES], words[_OFFSET] = nbytes, offset
    for first in range(0, sources.size, _GROUP):
        count = min(_GROUP, sources.size - first)
        is_last = first + count == sources.size
        following = 0 if is_last else first + _GROUP
        for index in range(count):
            table[index] = sources[first + index]
            table[_GROUP + index] = sources[min(following + index, sources.size - 1)]
        words[_COUNT], words[_AHEAD] = count, ahead if is_last else offset
        words[_RESUMES], words[_ENDS] = first, is_last
        combine_steps(code, op, scratch + _WORDS)


@jit()
def _combine_tail(
    code: int, op: int, sources: CArray, offset: int, nbytes: int, scratch: int
) -> None:
    """Combine what is less than a step, by copies that are as long as one."""
    table = carray(as_pointer(scratch + _TABLE), (2 * _GROUP,), np.int64)
    words = carray(as_pointer(scratch + _WORDS), (_N_WORDS,), np.int64)
    words[_NBYTES], words[_OFFSET], words[_AHEAD], words[_PAST] = STEP, 0, 0, 0
    for first in range(0, sources.size, _GROUP):
        count = min(_GROUP, sources.size - first)
        for index in range(count):
            copy = scratch + _TAILS + index * STEP
            move_bytes(copy, sources[first + index] + offset, nbytes)
            table[index] = table[_GROUP + index] = copy
        words[_COUNT], words[_RESUMES] = count, first
        words[_ENDS] = first + count == sources.size
        combine_steps(code, op, scratch + _WORDS)


@jit()
def reduce_run(
    code: int,
    op: int,
    sources: CArray,
    targets: CArray,
    size: int,
    count: int,
    scratch: int,
    stream: int,
) -> None:
    """Reduce ``count`` elements at every source address and write the result to every target.

    A target may be one of the sources (the same address, not a shifted one).

    Args:
        code: Number of the dtype (:data:`CODES`).
        op: ``SUM``, ``PROD``, ``MAX``, ``MIN`` or ``AVG``.
        sources: Addresses, ``int64[n]``, in the order of combination; at least one.
        targets: Addresses, ``int64[m]``.
        size: Bytes of an element.
        count: Number of elements.
        scratch: Address of :data:`SCRATCH_BYTES` bytes that nobody else uses, aligned to 64.
        stream: 1: write past the caches, which pays where targets are no sources and large.
    """
    words = carray(as_pointer(scratch + _WORDS), (_N_WORDS,), np.int64)
    words[_SOURCES], words[_FOLLOWING] = scratch + _TABLE, scratch + _TABLE + 8 * _GROUP
    words[_SUMS], words[_MEMBERS] = scratch, sources.size
    for start in range(0, count, BLOCK):
        begin, nbytes = start * size, min(BLOCK, count - start) * size
        whole = nbytes // STEP * STEP
        kept = scratch + _RESULT  # where the result is copied from
        # A single target gets it from the registers.
        direct = targets.size == 1 and (stream == 0 or targets[0] & 63 == 0)
        if whole != 0:
            ahead = begin if start + BLOCK >= count else begin + nbytes
            words[_TARGET] = targets[0] + begin if direct else kept
            words[_PAST] = stream if direct else 0
            _combine_block(code, op, sources, begin, ahead, whole, scratch)
        if whole != nbytes:
            words[_TARGET] = kept + whole
            _combine_tail(code, op, sources, begin + whole, nbytes - whole, scratch)
        done = whole if direct else 0
        for index in range(targets.size):
            target = targets[index] + begin + done
            if stream != 0:
                stream_bytes(target, kept + done, nbytes - done)
            else:
                move_bytes(target, kept + done, nbytes - done)
    if stream != 0:
        fence()


__all__ = [
    "AVG",
    "BLOCK",
    "CODES",
    "MAX",
    "MIN",
    "OPS",
    "PROD",
    "SCRATCH_BYTES",
    "SUM",
    "reduce_run",
    "supports",
]
