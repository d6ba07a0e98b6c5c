"""What a host's agent clears for an allocation to come."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.hosts.host_heap import HostHeap, dtype_number
from emu.comm.hosts.places import Places
from emu.comm.layout import SERVERS_NAME, Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment

NBYTES = 5000


@pytest.mark.parametrize("name", ["x", SERVERS_NAME])
def test_mirrors_of_servers_areas_are_cleared_of_what_was_there(name: str) -> None:
    segment = Segment.create(Layout(n_pes=2, heap_bytes=1 << 20))
    me = register(segment, 1, 0)
    heap = HostHeap(segment, me, 1, Places((1, 1), 0, ("a", "b")), poison=False)
    fields = {
        "offset": 64,
        "nbytes": NBYTES,
        "group": 0,
        "dtype": dtype_number(np.dtype(np.uint8)),
        "poison": False,
    }
    layout = segment.layout
    starts = [layout.heaps + pe * layout.stride + 64 for pe in range(2)]
    heap.make_ready({**fields, "name": "before"})
    for start in starts:
        segment.bytes[start : start + NBYTES] = 7  # in the mirror of PE 1: what was copied here
    heap.make_ready({**fields, "name": name})
    own, mirror = (segment.bytes[start : start + NBYTES] for start in starts)
    assert not own.any()
    assert mirror.any() == (name != SERVERS_NAME)
    segment.close()
