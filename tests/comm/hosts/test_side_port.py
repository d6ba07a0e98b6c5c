"""The port of a PE's servers: requests that nobody waits for, in a ring of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from emu.comm.errors import CommError, StoppedError
from emu.comm.hosts.places import Places
from emu.comm.hosts.port import Port
from emu.comm.hosts.side_port import SidePort, side_port
from emu.comm.hosts.words import (
    AMOUNT,
    COUNT,
    KIND,
    LANES,
    NBYTES,
    PORT_BYTES,
    PORT_DATA,
    PORT_RECORDS,
    POSTED,
    PUSH,
    ROWS,
    SLOT_DATA,
    SLOTS,
    WORDS,
)
from emu.comm.layout import PAGE, Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import INTERRUPTED, publish_stop

Host = tuple[Segment, Port]


@pytest.fixture
def host() -> Iterator[Host]:
    """The segment of a host with PEs 0 and 1, of which PE 1 has a port; PE 2 is elsewhere."""
    layout = Layout(n_pes=3, heap_bytes=1 << 16, port_bytes=2 * LANES * PORT_BYTES)
    segment = Segment.create(layout)
    me = register(segment, 1, 0)
    register(segment, 2, 0)
    yield segment, Port(segment, me, 1, Places((2, 1), 0, ("a", "b")))
    segment.close()


def test_there_is_one_for_all_groups_beside_that_of_the_program(host: Host) -> None:
    _, port = host
    side = side_port(port)
    assert isinstance(side, SidePort)
    assert side_port(port) is side
    assert port.side is side


def test_a_push_has_its_rows_and_a_copy_of_its_payload_behind_all_ports_of_programs(
    host: Host,
) -> None:
    segment, port = host
    payload = np.array([5, 6, 7], np.int64)
    side_port(port).push({AMOUNT: 9}, [1], [(640, 64, 1), (704, 8, -1)], payload)
    payload[:] = 0
    area = segment.map_ports()
    posted = [int(area[i * PORT_BYTES :][:PAGE].view(np.int64)[POSTED]) for i in range(4)]
    assert posted == [0, 0, 0, 1]  # programs of PEs 0 and 1, then servers of both
    port_bytes = area[3 * PORT_BYTES :]
    words = port_bytes[PORT_RECORDS:][: 8 * WORDS].view(np.int64)
    assert words[[KIND, AMOUNT, COUNT, ROWS, NBYTES]].tolist() == [PUSH, 9, 1, 2, 24]
    data = port_bytes[PORT_DATA:][:80].view(np.int64)
    assert data.tolist() == [1, 640, 64, 1, 704, 8, -1, 5, 6, 7]


def test_who_waits_for_a_free_slot_ends_with_the_world(host: Host) -> None:
    segment, port = host
    side = side_port(port)
    for _ in range(SLOTS):  # no agent takes them
        side.push({}, [1])
    publish_stop(segment, INTERRUPTED, "enough")
    with pytest.raises(StoppedError, match="enough"):
        side.push({}, [1])


def test_more_rows_than_a_slot_holds_are_refused(host: Host) -> None:
    _, port = host
    rows = [(0, 8, 1)] * (SLOT_DATA // 24 + 1)
    with pytest.raises(CommError, match="in 262144 bytes, but 10923 rows take 262160"):
        side_port(port).push({}, [1], rows)
