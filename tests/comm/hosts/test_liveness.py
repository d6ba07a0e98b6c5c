"""Who is taken for lost, what ends an agent's sleep, and which payloads are received ahead."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from emu.comm.hosts import peers as module
from emu.comm.hosts.evidence import Evidence
from emu.comm.hosts.peers import LOST_S, STARVED_S, Peers
from emu.comm.hosts.places import Places
from emu.comm.hosts.sleep import Sleeper

PLACES = Places((1, 1), 0, ("a", "b"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def lost_after(clock: list[float], is_there: bool | None, limit_s: float) -> float:
    """Return after how many seconds of silence the other host is lost."""
    peers = Peers(PLACES, 1.0, lambda host, message: None, lambda host: is_there)
    begin = clock[0]
    while clock[0] - begin < limit_s:
        clock[0] += 0.1
        if any(event.kind == "lost" for event in peers.look([0, 0])):
            return clock[0] - begin
    return limit_s


@pytest.mark.parametrize(("is_there", "after_s"), [(None, LOST_S), (True, STARVED_S), (False, 1.0)])
def test_silence_is_loss_sooner_or_later_by_what_the_system_knows(
    is_there: bool | None, after_s: float, clock: list[float]
) -> None:
    assert after_s <= lost_after(clock, is_there, 2 * STARVED_S) < after_s + 0.3


def test_an_agent_that_did_not_look_takes_nobody_for_lost(clock: list[float]) -> None:
    peers = Peers(PLACES, 1.0, lambda host, message: None)
    for _ in range(20):
        clock[0] += 10.0
        assert not list(peers.look([0, 0]))


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def test_a_connection_says_whether_the_other_side_is_there(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    near, far = connection
    evidence = Evidence({near.fileno(): near})
    assert evidence.is_there(1) is None
    said = Evidence({far.fileno(): far}).news()
    assert said is not None
    evidence.hear(1, {**said, "machine": "another"})
    assert evidence.is_there(1) is True
    far.close()
    end = time.monotonic() + 5
    while evidence.is_there(1) and time.monotonic() < end:
        time.sleep(0.01)
    assert evidence.is_there(1) is False


def test_a_connection_that_was_given_up_says_nothing_beside_an_open_one(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    near, far = connection
    with socket.create_server(("127.0.0.1", 0)) as server:
        second = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    with second, accepted:
        said = Evidence({0: far, 1: accepted}).news()
        alone, both = Evidence({0: second}), Evidence({0: second, 1: near})
        for evidence in (alone, both):
            evidence.hear(1, {**(said or {}), "machine": "another"})
            assert evidence.is_there(1) is True
        accepted.close()
        end = time.monotonic() + 5
        while alone.is_there(1) and time.monotonic() < end:
            time.sleep(0.01)
        assert alone.is_there(1) is False
        assert both.is_there(1) is True


def test_a_process_of_this_machine_that_is_stopped_is_there_and_one_that_is_killed_is_not() -> None:
    evidence = Evidence({})
    said = evidence.news()
    assert said is not None
    assert evidence.news() is None  # it is the same
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        evidence.hear(1, {**said, "process": process.pid})
        process.send_signal(19)
        assert evidence.is_there(1) is True
        process.kill()
        end = time.monotonic() + 5
        while evidence.is_there(1) and time.monotonic() < end:
            time.sleep(0.01)  # a zombie by now
        assert evidence.is_there(1) is False


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    words = np.zeros(64, np.int64)
    found = Sleeper(int(words.ctypes.data), words)
    yield found
    found.close()
    assert words[1] == 0


def test_a_sleep_ends_when_a_pe_rings_and_when_bytes_come(
    sleeper: Sleeper, connection: tuple[socket.socket, socket.socket]
) -> None:
    near, far = connection
    assert sleeper.look_for_sockets(time.monotonic())
    assert near.fileno() in sleeper.sockets
    before = sleeper.received()
    for end_it in (sleeper.ring, lambda: far.send(b"abc")):
        sleeper.announce()
        end_it()
        sleeper.sleep()
    end = time.monotonic() + 5
    while sleeper.received() == before and time.monotonic() < end:
        time.sleep(0.01)
    assert sleeper.received() == before + 3


def test_naps_without_a_network_of_sockets_grow_until_there_is_work(
    sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = []
    plain = select.select

    def recorded(*waited: Any) -> Any:
        naps.append(waited[-1])
        return plain(*waited)

    monkeypatch.setattr(select, "select", recorded)
    for _ in range(7):
        sleeper.announce()
        sleeper.sleep()
    assert naps == [5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1e-3, 1e-3]
    sleeper.worked()
    sleeper.ring()
    sleeper.sleep(briefly=True)
    assert naps[-1] == 5e-5


def test_sockets_that_are_not_of_the_network_are_left_alone(sleeper: Sleeper) -> None:
    one, other = socket.socketpair()
    read, write = os.pipe()
    try:
        before = set(os.listdir("/proc/self/fd"))
        sleeper.look_for_sockets(time.monotonic())
        assert not {one.fileno(), other.fileno(), read, write} & set(sleeper.sockets)
        assert set(os.listdir("/proc/self/fd")) == before
    finally:
        one.close()
        other.close()
        os.close(read)
        os.close(write)
