"""``CollectiveHeader``: the call of a collective as a row of words that all members compare.

Each member writes its call (operation, dtype, shape, root, …) into its header, in its symmetric heap, before
it arrives at the opening barrier; behind the barrier everyone reads all headers. Members that came there by
other calls are found by the barrier itself (:mod:`emu.comm.world.agreement`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.comm.arrays import Words
from emu.comm.world.agreement import FIRST_COLLECTIVE, STAGES
from emu.kernels.core.address import as_pointer
from emu.kernels.core.dtypes import DTYPES
from emu.kernels.core.jit import carray, jit
from emu.kernels.reduce import CODES, OPS

MAX_RANK = 32

# --- int64 words of a header. The first COMPARED, but for IN and OUT, must be the same on every member. A header that
# differs in nothing but its shape from the one before differs in one cache line.
KIND, DTYPE, OP, ROOT, PAIRS, RANK, IN, OUT, SHAPE = range(9)
"""IN and OUT: offset of the member's input, or output, in its own heap if the others may use it there; else
UNKNOWN."""
COMPARED = SHAPE + MAX_RANK
HEADER_WORDS = 48  # behind them: the send counts of all_to_all_v
UNKNOWN = -1

KINDS = {
    "broadcast": 0,
    "all_gather": 1,
    "reduce_scatter": 2,
    "all_reduce": 3,
    "all_to_all": 4,
    "all_to_all_v": 5,
    "permute": 6,
    "gather": 7,
    "scatter": 8,
}


@dataclass(kw_only=True, slots=True)
class CollectiveHeader:
    """The call of one member: what all members must agree on, and what they tell each other."""

    kind: str
    dtype: np.dtype[np.generic] | None
    """None: this member leaves dtype and shape to the root."""
    shape: tuple[int, ...]
    op: int = 0
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def tag(self) -> int:
        """The first tag of the call's barriers (:mod:`emu.comm.world.agreement`)."""
        return FIRST_COLLECTIVE + STAGES * KINDS[self.kind]

    def write(self, words: Words, source: int, target: int) -> None:
        """Write the header, with the offsets of input and output in the heap, or ``UNKNOWN``."""
        known = self.dtype is not None
        words[:COMPARED] = 0
        words[: SHAPE + len(self.shape)] = (
            KINDS[self.kind],
            CODES[self.dtype] if self.dtype is not None else UNKNOWN,
            self.op,
            self.root,
            hash(self.pairs),
            len(self.shape) if known else UNKNOWN,
            source,
            target,
            *self.shape,
        )
        if self.counts:
            words[HEADER_WORDS:] = self.counts

    def __str__(self) -> str:
        arguments = [] if self.dtype is None else [f"{self.dtype} {self.shape}"]
        if self.kind in ("all_reduce", "reduce_scatter"):
            arguments.append(f"op={list(OPS)[self.op]!r}")
        if self.kind in ("broadcast", "gather", "scatter"):
            arguments.append(f"root={self.root}")
        if self.kind == "permute":
            arguments.append(f"pairs={list(self.pairs)}"[:200])
        return f"{self.kind}({', '.join(arguments)})"


@jit()
def read_headers(headers: Words, offset: int, table: Words) -> bool:
    """Copy every member's header into a row of ``table``.

    Returns:
        Whether the compared words are the same in all rows; if not, :func:`headers_agree` decides.
    """
    words = table.shape[1]
    same = True
    for pe in range(headers.size):
        header = carray(as_pointer(headers[pe] + offset), (words,), np.int64)
        for index in range(words):
            table[pe, index] = header[index]
        for index in range(COMPARED):
            if table[pe, index] != table[0, index] and index != IN and index != OUT:
                same = False
    return same


def headers_agree(table: Words) -> bool:
    """Return whether all headers, rows of a table, mean the same call."""
    compared = table[:, :COMPARED].copy()
    compared[:, [IN, OUT]] = UNKNOWN
    # Members that leave dtype and shape to the root are compared with it in the rest.
    known = np.flatnonzero(compared[:, RANK] != UNKNOWN)
    first = compared[known[0] if known.size else 0]
    there = compared.copy()
    unknown = there[:, RANK] == UNKNOWN
    there[unknown, DTYPE] = first[DTYPE]
    there[unknown, RANK:] = first[RANK:]
    return bool((there == first).all())


def header_dtype(header: Words) -> np.dtype[np.generic]:
    """Return the dtype in a header."""
    return DTYPES[int(header[DTYPE])]


def header_shape(header: Words) -> tuple[int, ...]:
    """Return the shape in a header."""
    return tuple(int(extent) for extent in header[SHAPE : SHAPE + int(header[RANK])])
