"""A PE's ports: what a put leaves for the agent; and that of its servers, in a ring of its own."""

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
    DONE,
    KIND,
    LANES,
    NBYTES,
    OFFSET,
    PORT_BYTES,
    PORT_DATA,
    PORT_RECORDS,
    POSTED,
    PUSH,
    RECORD_BYTES,
    ROWS,
    SLOT_DATA,
    SLOTS,
    SPAN,
    WORDS,
)
from emu.comm.layout import PAGE, Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import INTERRUPTED, check_stopped, publish_stop

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


def test_a_large_tile_goes_in_growing_pieces_that_take_several_slots(host: Host) -> None:
    segment, port = host
    source = np.arange(SLOT_DATA * 6 // 8 + 1, dtype=np.int64)
    port.put((2, 640), (8,), source, 0, add=False)
    area = segment.map_ports()[PORT_BYTES:][:PORT_BYTES]  # of PE 1
    taken = 0
    sizes = []
    while taken < area[:PAGE].view(np.int64)[POSTED]:
        words = area[PORT_RECORDS + taken * RECORD_BYTES :][:RECORD_BYTES].view(np.int64)
        first = sum(sizes)
        data = area[PORT_DATA + taken * SLOT_DATA :][: words[NBYTES]].view(np.int64)
        assert words[OFFSET] == 640 + first
        assert (data == source[first // 8 :][: data.size]).all()
        sizes.append(int(words[NBYTES]))
        taken += int(words[SPAN])
    assert sizes == [SLOT_DATA, SLOT_DATA, 2 * SLOT_DATA, 2 * SLOT_DATA + 8]
    assert taken == 7


def test_a_slot_is_used_again_when_its_request_was_answered(host: Host) -> None:
    segment, port = host
    source = np.zeros(SLOT_DATA // 8, np.int64)
    for _ in range(SLOTS):  # no agent takes them
        port.put((2, 0), (8,), source, 0, add=False)
    publish_stop(segment, INTERRUPTED, "enough")
    port.sleep = lambda _again, _what: check_stopped(segment)
    with pytest.raises(StoppedError, match="enough"):
        port.put((2, 0), (8,), source, 0, add=False)
    words = segment.map_ports()[PORT_BYTES:][:PAGE].view(np.int64)
    words[DONE::8][:4] = [1, 2, 3, 4]  # the first four were answered
    port.put((2, 0), (8,), source, 0, add=False)
    assert words[POSTED] == SLOTS + 1
