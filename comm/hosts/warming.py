"""Load what an agent calls before anybody waits for it: a kernel that is not in the cache takes seconds to compile."""

from __future__ import annotations

import os
import tempfile

import numpy as np

from emu.comm.hosts import sending, serving, steps
from emu.comm.layout import Layout
from emu.comm.memory.heap import Heap, register
from emu.comm.memory.segment import Segment
from emu.comm.sync import element_numbers, entry_points, signals
from emu.comm.sync.elements import access_elements
from emu.comm.sync.signals import GET, PUT
from emu.kernels.core.dtypes import KINDS
from emu.kernels.core.jit import entry, native_address
from emu.kernels.strided.access_plan import add_plan, copy_plan


def warm() -> None:
    """Load the rounds of an agent, and call each other kernel once, in memory that nobody else has."""
    for kernel, integers in ((serving.rounds, 2), (sending.send_record, 5)):
        entry(kernel, integers)
    native_address(signals.add_dense, 7)
    layout = Layout(n_pes=2, heap_bytes=1 << 20)
    with tempfile.TemporaryFile() as file:
        descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, layout.file_bytes)
    segment = Segment(descriptor, layout)
    try:
        me = register(segment, 0, 0)
        tile = np.zeros((4, 4), np.float32)
        kind = KINDS[tile.dtype]
        with Heap(segment, me, 0, poison=False).table_lock():
            pass
        free = segment.address + layout.heaps + layout.stride
        steps.notify_pe(me, 1)
        steps.publish_word(me, free, 0, 1)
        steps.store_word(free, 0)
        steps.count_arrivals(me, segment.address + layout.groups, 2, 1, 1)
        words = np.zeros(3, np.int64)
        access_elements(me, 1, int(words.ctypes.data), 1, element_numbers.ADD, 0, 4)
        plan = add_plan((4, 4), (32, 4), (16, 4), 4, ordered=True)
        entry_points.add_tile(me, 1, 0, id(tile), kind, plan.address)
        for direction in (PUT, GET):
            copy = copy_plan((4, 4), (32, 4) if direction == PUT else (16, 4), (16, 4), 4)
            entry_points.move_tile(me, 1, 0, id(tile), copy.address, direction)
    finally:
        segment.close()
