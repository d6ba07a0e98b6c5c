"""Records that describe a collective on one member: the blocks that it stages, fetches and reduces.

A collective proceeds in *turns*: of every block of ``nbytes`` bytes each turn moves one piece, and the last
piece is what is left. Memory of the caller *walks on* from piece to piece. Staging memory has two slots, which
*alternate* from turn to turn, so that one is filled while the other is read.

World's rounds (:mod:`emu.comm.world.rounds`) and the turns of a communication server
(:mod:`emu.comm.server.executor`) differ in how members wait for each other, and in nothing else: both
execute the steps of :mod:`emu.comm.engine.steps` on these records.
"""

from __future__ import annotations

import numpy as np

from emu.comm.layout import LINE, round_up


def words(*names: str) -> np.dtype[np.void]:
    """Return the dtype of a record of 64-bit integers."""
    return np.dtype([(name, np.int64) for name in names])


STAGE = words(
    "source",  # address; walks on
    "nbytes",
    "offset",  # in the staging slot
    "piece",  # bytes per turn
    "own",  # address in this member's output to which the block is copied as well, or 0
)
"""A block of private input that the others need."""

PULL = words(
    "source",  # address; walks on, or is the first of two slots,
    "target",  # walks on
    "nbytes",
    "other_slot",  # which lie this many bytes apart; 0: it walks on
    "piece",  # bytes per turn
)
"""A block to fetch."""

MEMBER = words(
    "source",  # the part of its input that is reduced: address; walks on, or is the first of two slots,
    "other_slot",  # which lie this many bytes apart; 0: it walks on
    "result",  # the same for the slices that it reduces and the others collect
    "other_result",
)
"""A member as a reduction sees it: the rows of all members, in their order."""

REDUCTION = (
    "my",  # this member
    "n_pes",
    "itemsize",
    "dtype_code",
    "op",
    "count",  # elements per turn
    "total",  # elements of all turns
    "sliced",  # 1: each member reduces a slice of the turn; 0: all of it, from parts of its own
    "output",  # address; walks on
    "delivery",  # NONE, KEPT or PUSHED
    "staging",  # address of this member's two slots for input, ...
    "slot_bytes",
    "results",  # ... and of its two slots for slices that the others collect
    "result_bytes",
    "scratch",  # address of memory for reductions
)
"""Fields that a plan of turns must have; ``staging`` and ``slot_bytes`` for copies, too."""

NONE, KEPT, PUSHED = range(3)
"""Delivery of the slice that a member reduces: nobody else needs it, or the others collect it from the output;
it is kept in a result slot, from which they collect it; it is stored to the outputs of all members."""


def share_of(count: int, n_pes: int, itemsize: int, member: int) -> tuple[int, int]:
    """Return (first element, number of elements) that a member reduces of a turn of ``count`` elements, if that is sliced.

    As :func:`emu.comm.engine.steps.slice_of`, which is compiled.
    """
    share = round_up(-(-count // n_pes), LINE // itemsize)
    first = min(member * share, count)
    return first, min(share, count - first)
