"""What kernels ask of other hosts' elements, as a port sees it: in which order, and what of a tile travels."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from emu.comm.errors import CommError
from emu.comm.hosts.places import Places
from emu.comm.sync.element_numbers import ADD, CAS, LOAD, SIGNED, STORE, room_for
from emu.comm.world.kernel_elements import RemoteElements


class Room:
    """A room with operands of 4 bytes in it, as a kernel leaves them."""

    def __init__(self, remote: RemoteElements, offsets: list[int], mask: list[int] | None) -> None:
        count = len(offsets)
        places = room_for(count, 4)
        self.address, self.remote, self.count = remote.take_room(places.nbytes), remote, count
        memory = remote._used[self.address]
        memory[: 8 * count].view(np.int64)[:] = offsets
        self.values = memory[places.values : places.values + 4 * count].view(np.int32)
        self.expected = memory[places.expected : places.expected + 4 * count].view(np.int32)
        self.values[:], self.expected[:] = np.arange(count) + 10, np.arange(count) + 20
        self.masked = int(mask is not None)
        if mask is not None:
            memory[places.mask : places.mask + count] = mask

    def access(self, operation: int) -> None:
        given = self.address, self.count, 4, SIGNED, operation, self.masked
        self.remote.elements(3, *given)


def started(**results: Any) -> tuple[Mock, RemoteElements]:
    port = Mock(places=Places((2, 2), 0, ("a", "b")), **results)
    return port, RemoteElements(port)


def names(port: Mock) -> list[str]:
    return [call[0] for call in port.mock_calls]


def test_a_store_comes_behind_what_was_stored_elsewhere_and_a_load_does_not_wait() -> None:
    port, remote = started()
    Room(remote, [40, 8, 400], None).access(STORE)
    assert names(port) == ["settle", "elements"]
    port.settle.assert_called_once_with(1)  # the host of PE 3
    assert not port.elements.call_args.kwargs["waits"]
    port.reset_mock()
    Room(remote, [40, 8, 400], None).access(LOAD)
    assert names(port) == ["elements"]
    assert port.elements.call_args.kwargs["waits"]
    port.reset_mock()
    remote.settle()
    port.settle.assert_called_once_with()


def test_lanes_that_are_masked_do_not_travel_and_keep_what_they_hold() -> None:
    def answer(pe: int, how: tuple[int, int, int], lists: Any, *, waits: bool) -> None:
        assert (pe, how, waits) == (3, (CAS, SIGNED, 4), True)
        assert lists.tolist() == [[40, 400], [10, 12], [20, 22]]
        lists[1] = [-1, 7]

    _, remote = started(elements=answer)
    room = Room(remote, [40, 8, 400], [1, 0, 2])
    room.access(CAS)
    assert room.values.tolist() == [-1, 11, 7]


def test_nothing_is_asked_for_where_all_lanes_are_masked() -> None:
    port, remote = started()
    for operation in (LOAD, STORE, ADD, CAS):
        Room(remote, [0, 4], [0, 0]).access(operation)
    assert not port.mock_calls


def test_long_runs_travel_as_they_lie() -> None:
    port, remote = started()
    run = [4 * i for i in range(300)]
    Room(remote, run, None).access(STORE)
    assert names(port) == ["settle", "put"]
    place, strides, data, _ = port.put.call_args.args
    assert (place, strides) == ((3, 0), (1,))
    assert data.view(np.int32).tolist() == [*range(10, 310)]
    port.reset_mock()
    Room(remote, run[::-1], None).access(STORE)
    assert names(port) == ["settle", "elements"]
    port.reset_mock()
    Room(remote, run, None).access(ADD)  # one by one, each atomically
    assert names(port) == ["settle", "elements"]


def test_memory_is_used_again_and_given_back_when_a_host_is_lost() -> None:
    _, remote = started(elements=Mock(side_effect=CommError("host 1 is lost")))
    room = Room(remote, [0, 8], None)
    with pytest.raises(CommError, match="host 1 is lost"):
        room.access(LOAD)
    assert not remote._used
    assert remote.take_room(room_for(2, 4).nbytes) == room.address
    other = remote.take_room(room_for(2, 4).nbytes)
    assert other != room.address
    remote.give_room(other)
    remote.give_room(room.address)
    assert not remote._used
