"""``Owner``: what a host does in the heaps of its PEs on behalf of PEs of other hosts, where compiled code leaves it to Python.

Tiles of any strides need a plan, single elements lists; arrivals at a barrier that has not come to their generation are kept. All else is done in
:mod:`emu.comm.hosts.serving`.

Each PE of another host has a block here, too, which this host's agent has filled. With it the agent calls the kernels
that PEs call, so that locks, the last writers of words and the doorbells of sleepers are what they are on one host,
and reports name the PE that asked.
"""

from __future__ import annotations

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts import steps
from emu.comm.hosts.port import dense_strides
from emu.comm.hosts.words import (
    ADD,
    ASKER,
    CODE,
    COUNT,
    ELEMENTS,
    GENERATION,
    GET,
    GROUP,
    HOW_MANY,
    ITEMSIZE,
    KIND,
    LISTS,
    MEET,
    MEMBERS,
    NBYTES,
    OFFSET,
    OPERATION,
    RANK,
    SHAPE,
    STRIDES,
    TAG,
    TARGET,
)
from emu.comm.memory.segment import Segment
from emu.comm.sync import element_numbers, entry_points
from emu.comm.sync.elements import access_elements
from emu.comm.sync.signals import GET as FETCH
from emu.comm.sync.signals import PUT as STORE
from emu.kernels.strided.access_plan import add_plan, copy_plan

Outcome = tuple[int, Bytes | None]
"""Result of an operation, and what it has fetched."""


class Owner:
    """The heaps of a host's PEs.

    Args:
        segment: Shared memory of the host.
        blocks: Address of the block of each PE of another host.
    """

    def __init__(self, segment: Segment, blocks: dict[int, int]) -> None:
        self._segment = segment
        self._blocks = blocks
        self._early: list[Words] = []

    def apply(self, words: Words, payload: Bytes | None) -> Outcome:
        """Do what a record asks for: a strided put, ADD or get, single elements, or an arrival."""
        kind = int(words[KIND])
        if kind == MEET:
            if not self._meet(words):
                self._early.append(words.copy())
            return 0, None
        me = self._blocks[int(words[ASKER])]
        if kind == GET:
            return 0, self._get(me, words)
        assert payload is not None
        if kind == ELEMENTS:
            return 0, self._elements(me, words, payload)
        return (self._add if kind == ADD else self._put)(me, words, payload), None

    def _meet(self, words: Words) -> bool:
        """Count PEs as arrived at a barrier, if that has come to their generation; return whether it had.

        PEs are counted on other hosts before they count themselves on their own. So these may let their members pass, and the
        next arrivals of one of them may be here before those that this host still waits for.
        """
        layout = self._segment.layout
        start = layout.groups + int(words[GROUP]) * layout.group_bytes
        generation = self._segment.bytes[start + 4 : start + 8].view(np.int32)
        if generation[0] != words[GENERATION]:
            return False
        me = self._blocks[int(words[ASKER])]
        barrier = self._segment.address + start
        steps.count_arrivals(
            *(me, barrier, int(words[MEMBERS]), int(words[TAG]), int(words[COUNT]))
        )
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether arrivals wait for their generation."""
        return bool(self._early)

    def pending(self, groups: set[int]) -> set[int]:
        """Return the members of groups at whose barriers arrivals wait for their generation; ``groups``: those that the wire knows."""
        waiting = groups | {int(words[GROUP]) for words in self._early}
        return {pe for group in waiting for pe in self._segment.members(group)}

    def look_again(self) -> None:
        """Count arrivals whose generation has come."""
        self._early = [words for words in self._early if not self._meet(words)]

    def _put(self, me: int, words: Words, payload: Bytes) -> int:
        pe, offset = int(words[TARGET]), int(words[OFFSET])
        shape, strides, dense = _form(words)
        plan = copy_plan(shape, strides, dense, int(words[ITEMSIZE]))
        entry_points.move_tile(me, pe, offset, id(payload), plan.address, STORE)
        return 0

    def _add(self, me: int, words: Words, payload: Bytes) -> int:
        pe, offset = int(words[TARGET]), int(words[OFFSET])
        shape, strides, dense = _form(words)
        plan = add_plan(shape, strides, dense, int(words[ITEMSIZE]), ordered=True)
        code = int(words[CODE])
        return int(entry_points.add_tile(me, pe, offset, id(payload), code, plan.address))

    def _elements(self, me: int, words: Words, payload: Bytes) -> Bytes | None:
        """Access single elements; return what was found, of stores nothing."""
        count, lists, operation = (int(words[k]) for k in (HOW_MANY, LISTS, OPERATION))
        given = np.zeros((3, count), np.int64)
        given[:lists] = payload.view(np.int64).reshape(lists, count)
        kind, size = int(words[CODE]), int(words[ITEMSIZE])
        address = int(given.ctypes.data)
        access_elements(me, int(words[TARGET]), address, count, operation, kind, size)
        return None if operation == element_numbers.STORE else given[1].view(np.uint8)

    def _get(self, me: int, words: Words) -> Bytes:
        """Return a copy of the tile that a record asks for."""
        shape, strides, dense = _form(words)
        target: Bytes = np.empty(int(words[NBYTES]), np.uint8)
        plan = copy_plan(shape, dense, strides, int(words[ITEMSIZE]))
        pe, offset = int(words[TARGET]), int(words[OFFSET])
        entry_points.move_tile(me, pe, offset, id(target), plan.address, FETCH)
        return target


def _form(words: Words) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a tile, its strides in the heap, and those in its payload."""
    rank = int(words[RANK])
    shape = tuple(words[SHAPE : SHAPE + rank].tolist())
    strides = tuple(words[STRIDES : STRIDES + rank].tolist())
    return shape, strides, dense_strides(shape, int(words[ITEMSIZE]))
