"""The shared memory of a communicator's servers: one area per member, in its symmetric heap.

An area begins with 64-bit words. Turns are numbered through all tasks of a communicator, and every member
executes the same turns, so that words which only grow say everything: ``READY`` turns whose input the others
may read, ``REDUCED`` turns of which this member's slice of an all-reduce is there, ``PULLED`` turns for which
this member needs nothing more from anybody, ``ANSWERED`` turns of which the compute side may hear.

Behind the words lie the records of the member's tasks, which all members read and compare; the messages that
its compute side leaves for its server; and the launch of its communication kernel.
"""

from __future__ import annotations

import numpy as np

from emu.comm.arrays import Bytes, Words
from emu.comm.server import tasks
from emu.comm.server.comm_kernel import AREA_BYTES
from emu.comm.server.words import FAILED, NAME, RECORDS, SLOTS
from emu.comm.sync.signals import ring
from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group


class Areas:
    """The areas of all members of a communicator, as one of them sees them.

    Attributes:
        me: Address of this PE's block.
        my: This member's number.
        heaps: Address of each member's symmetric heap.
        addresses: Address of each member's area.
        members: World number of each member.
        words: Words of each member's area.
        records: Records of each member's tasks, as rows of words, by slot.
        message_dtype: Layout of a message.
        messages: Messages of this member, by slot.
        launch: Bytes of this member's launch.
        record_dtype: Layout of a record.
        record_words: Number of 64-bit words of a record.
    """

    def __init__(self, group: Group) -> None:
        n_pes = group.n_pes
        self.me, self.my = group.me, group.my_pe
        self.message_dtype = tasks.message_dtype(n_pes)
        self.record_dtype = tasks.record_dtype(n_pes)
        self.record_words = self.record_dtype.itemsize // 8
        head = 8 * RECORDS
        behind_records = head + SLOTS * self.record_dtype.itemsize
        behind_messages = behind_records + SLOTS * self.message_dtype.itemsize
        area = group.alloc(
            behind_messages + AREA_BYTES,
            np.uint8,
            name=NAME,
            key=NAME,
            poison=False,
        )
        layout = group.segment.layout
        start = group.segment.address + layout.heaps
        self.heaps: Words = np.array([start + p * layout.stride for p in group.members], np.int64)
        self.addresses: Words = self.heaps + area.offset
        self.members: Words = np.array(group.members, np.int64)
        views = self._views(area)
        self.words = [view[:head].view(np.int64) for view in views]
        self.records = [
            view[head:behind_records].view(np.int64).reshape(SLOTS, -1) for view in views
        ]
        mine = views[self.my]
        self.messages = mine[behind_records:behind_messages].view(self.message_dtype)
        self.launch = mine[behind_messages:]

    @staticmethod
    def _views(area: SymmetricArray) -> list[Bytes]:
        """Return the memory of each member's area."""
        return [area.on(pe) for pe in range(area.group.n_pes)]

    @property
    def mine(self) -> Words:
        """Words of this member's area."""
        return self.words[self.my]

    def report_failure(self, member: int) -> None:
        """Report to every member that ``member`` failed, so that nobody waits for it any more."""
        for words, world_pe in zip(self.words, self.members.tolist(), strict=True):
            if not words[FAILED]:
                words[FAILED] = 1 + member
                ring(self.me, world_pe)
