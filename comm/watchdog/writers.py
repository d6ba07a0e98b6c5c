"""Last writers of words: who wrote a word by a signal, an atomic or a small put, as far as is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emu.comm.arrays import Words
from emu.comm.layout import (
    WRITER_BITS,
    WRITER_HASH,
    WRITER_MASK,
    WRITER_NAMES,
    WRITER_OPERATION_BITS,
    WRITER_PART_BITS,
    WRITER_PUT,
    WRITERS,
)
from emu.comm.memory.segment import Segment

_OPERATION = (1 << WRITER_OPERATION_BITS) - 1


@dataclass(frozen=True)
class Writer:
    """A PE that wrote a word."""

    pe: int
    operation: str
    """``SET``, ``ADD``, ``swap``, ``compare_swap`` or ``put``."""

    def __str__(self) -> str:
        return f"PE {self.pe} ({self.operation})"


@dataclass(frozen=True)
class Written:
    """What is known of a word that was written."""

    pe: int
    """World number of the PE that holds it."""
    offset: int
    """Of the word in its heap."""
    last: Writer
    before: Writer | None
    """The writer before, if it was another PE, or wrote otherwise."""
    value: int | None
    """The low 32 bits, as a signed number, of what the last one wrote; None of a put."""


def last_written(segment: Segment, pe: int, offset: int) -> Written | None:
    """Return what is known of the writers of a word; None: nothing."""
    key = pe * segment.layout.stride + offset
    # The same hash as emu.comm.sync.signals.note_writer, in wrapping 64-bit arithmetic.
    entry = (key * WRITER_HASH & (2**64 - 1)) >> (64 - WRITER_BITS)
    there, info = (int(v) for v in _table(segment)[entry])
    return _written(pe, offset, info) if there == key + 1 else None


def all_written(segment: Segment) -> Iterator[Written]:
    """Yield all words of which a writer is known."""
    table, stride = _table(segment), segment.layout.stride
    for index in np.flatnonzero(table[:, 0]).tolist():
        key, info = (int(v) for v in table[index])
        if key:
            yield _written(*divmod(key - 1, stride), info)


def _table(segment: Segment) -> Words:
    start = segment.layout.writers
    return segment.bytes[start : start + WRITERS * 16].view(np.int64).reshape(WRITERS, 2)


def _written(pe: int, offset: int, info: int) -> Written:
    last, before = info & WRITER_MASK, info >> WRITER_PART_BITS & WRITER_MASK
    is_put = last & _OPERATION == WRITER_PUT
    return Written(
        pe,
        offset,
        _writer(last),
        _writer(before) if before else None,
        None if is_put else info >> 2 * WRITER_PART_BITS,
    )


def _writer(part: int) -> Writer:
    operation = WRITER_NAMES.get(part & _OPERATION, "?")
    return Writer(part >> WRITER_OPERATION_BITS, operation)
