"""``News``: what an agent does with the news of communication servers of other hosts.

The area of each member of a communicator that spans hosts lies on each of its hosts: the real one on the member's own, and
a mirror on the others, in which stands what the member has said. Servers and compute sides look there, and sleep, as on
one host. So news that has come is published in the mirror with the kernels that the member calls at home.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import types

from emu.comm.arrays import Bytes, Words
from emu.comm.hosts import steps
from emu.comm.hosts.words import (
    AMOUNT,
    AREA,
    ASKER,
    FAILURE,
    GROUP,
    MEMBER,
    OFFSET,
    RECORD_WORD,
    WAY,
    WORD,
)
from emu.comm.memory.segment import Segment
from emu.comm.server import tasks, waits
from emu.comm.server.words import FAILED, PULLED

_INT, _ROW = types.int64, types.int64[::1]
_KERNELS = (
    (waits.publish, (_INT, _ROW, _INT, _INT, _INT)),
    (waits.publish_record, (_INT, _ROW, _INT, _INT, _INT, _INT)),
    (waits.wake_waiters, (_INT, _ROW, _ROW)),
)


@functools.cache
def load_kernels() -> None:
    """Load or compile what an agent calls, before anybody waits for it."""
    for kernel, signature in _KERNELS:
        if hasattr(kernel, "compile"):  # absent under NUMBA_DISABLE_JIT
            kernel.compile(signature)


class News:
    """The communicators of one host that span several.

    Args:
        segment: Shared memory of the host.
        blocks: Address of the block of each PE of another host.
    """

    def __init__(self, segment: Segment, blocks: dict[int, int]) -> None:
        self._segment = segment
        self._blocks = blocks
        self._areas: dict[tuple[int, int], tuple[Words, Words]] = {}

    def __call__(self, words: Words, payload: Bytes | None) -> None:
        """Publish what a member on another host has said.

        Args:
            words: The record.
            payload: What is stored before at the offset in the segment's file that it names.
        """
        if payload is not None:
            start = int(words[OFFSET])
            self._segment.bytes[start : start + payload.size] = payload
        areas, worlds = self._areas_of(int(words[GROUP]), int(words[AREA]))
        me, member, value = (
            self._blocks[int(words[ASKER])],
            int(words[MEMBER]),
            int(words[AMOUNT]),
        )
        way = int(words[WAY])
        if way == FAILURE:
            self._report_failure(me, areas, worlds, value)
        elif way == RECORD_WORD:
            assert payload is not None
            width = payload.size // 8
            waits.publish_record(me, areas, member, value, width, tasks.AGREED_WORDS)
        else:
            waits.publish(me, areas, member, int(words[WORD]), value)
            if words[WORD] == PULLED:
                waits.wake_waiters(me, areas, worlds)

    def _report_failure(self, me: int, areas: Words, worlds: Words, failed: int) -> None:
        """Say to the members here that one has failed, unless they know of one; see :meth:`Areas.report_failure`."""
        for address, pe in zip(areas.tolist(), worlds.tolist(), strict=True):
            start = address - self._segment.address + 8 * FAILED
            word = self._segment.bytes[start : start + 8].view(np.int64)
            if pe not in self._blocks and not word[0]:
                word[0] = failed
                steps.notify_pe(me, pe)

    def _areas_of(self, group: int, area: int) -> tuple[Words, Words]:
        """Return the address of each member's area here, and each member's number in the World."""
        key = group, area
        if key not in self._areas:
            layout = self._segment.layout
            worlds: Words = np.array(self._segment.members(group), np.int64)
            start = self._segment.address + layout.heaps + area
            self._areas[key] = start + worlds * layout.stride, worlds
        return self._areas[key]
