"""Processes that find each other by an address become PEs of one World, and a keeper watches it."""

from __future__ import annotations

import gc
import io
import json
import multiprocessing
import os
import signal
import sys
import time
import weakref

import numpy as np
import pytest

import emu
from emu.comm.errors import CommError, DeadlockError, PEDiedError, PeerFailedError
from emu.comm.process import meeting
from emu.comm.process.keeper import started_at
from emu.comm.process.meeting import Membership, WorldOverError, find, host
from emu.comm.world.current import own

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they find each other by /proc")

_context = multiprocessing.get_context("fork")


def total(member):
    return member.world.all_reduce(np.full(3, member.world.my_pe + 1.0)).tolist()


def meet(address, pe, results, how):
    """Become a PE, and report the sum of what all have, or the error."""
    member = Membership(find(address), pe)
    assert emu.world() is own() is member.world
    if pe == 1:
        how()
    try:
        results.put((pe, total(member)))
    except CommError as error:
        results.put((pe, type(error), str(error)))


def go_on():
    pass


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise ValueError("bad input")


def leave_with_status():
    try:
        fail()
    except ValueError:
        sys.exit(10)


def end():
    sys.exit(0)


def outcomes(how, pes=(0, 1, 2), n=3, timeout=60.0):
    """Let processes meet; return what those have reported that were not ended by ``how``."""
    address, results = host(n, timeout), _context.SimpleQueue()
    started = [_context.Process(target=meet, args=(address, pe, results, how)) for pe in pes]
    for each in started:
        each.start()
    found = [results.get() for _ in pes if how is go_on or _ != 1]
    for each in started:
        each.join()
    return sorted(found, key=lambda report: report[0]), [each.exitcode for each in started]


def run_works():
    mine = emu.world()
    assert outcomes(go_on) == ([(pe, [6.0] * 3) for pe in range(3)], [0, 0, 0])
    assert outcomes(go_on, pes=(0,), n=1) == ([(0, [1.0] * 3)], [0])
    assert emu.world() is mine


def run_ends(how, error, text, status):
    sys.stderr = io.StringIO()  # of the children, which print tracebacks
    found, statuses = outcomes(how)
    assert [report[:2] for report in found] == [(0, error), (2, error)]
    assert text in found[0][2]
    assert statuses == [0, status, 0]


def run_misses():
    found, _ = outcomes(go_on, pes=(0, 1), timeout=1.0)
    assert [report[:2] for report in found] == [(0, DeadlockError), (1, DeadlockError)]
    assert "PE 2 is starting" in found[0][2]


def test_processes_that_share_an_address_are_pes() -> None:
    emu.launch(run_works, 1)


@pytest.mark.parametrize(
    ("how", "error", "text", "status"),
    [
        (die, PEDiedError, "has ended before it had finished", -9),
        (fail, PeerFailedError, "has failed: ValueError: bad input", 1),
        (leave_with_status, PeerFailedError, "failed: exit status 10 after ValueError: bad", 10),
        (end, DeadlockError, "PE 1 has finished", 0),
    ],
)
def test_the_end_of_a_process_ends_the_waits_of_the_others(how, error, text, status) -> None:
    emu.launch(run_ends, 1, args=(how, error, text, status))


def test_a_process_that_does_not_come_is_reported() -> None:
    emu.launch(run_misses, 1)


def run_leaves():
    first, second = (Membership(find(host(1)), 0) for _ in range(2))
    assert first.is_mine
    assert second.world is emu.world() is not first.world
    first.leave()
    assert total(second) == [1.0] * 3
    child = _context.Process(target=run_in_fork, args=(second,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert total(second) == [1.0] * 3
    second.leave()
    gone = weakref.ref(first.world.segment)
    del first
    gc.collect()
    assert gone() is None  # with its memory


def run_in_fork(member):
    assert not member.is_mine
    assert emu.world() is member.world  # its memory can be used
    assert own() is None


def test_a_process_can_go_from_one_world_to_the_next() -> None:
    emu.launch(run_leaves, 1)


def run_late():
    address = host(1, timeout=0.1)
    keeper = json.loads(address)["keeper"]
    segment = find(address)
    segment.close()
    while started_at(keeper):  # nobody comes
        time.sleep(0.02)
    with pytest.raises(WorldOverError, match=r"its keeper, process \d+, is not to be found"):
        find(address)
    wrong = json.dumps({**json.loads(address), "keeper": os.getpid(), "descriptor": 1})
    with pytest.raises(CommError, match="must be the memory of a World, but"):
        find(wrong)


def test_a_world_that_is_over_is_not_found() -> None:
    emu.launch(run_late, 1)


def test_a_keeper_that_cannot_be_started_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CommError, match="could not be started"):
        host(1)


def test_elsewhere_it_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(meeting.sys, "platform", "darwin")
    with pytest.raises(emu.CommError, match="on Linux only, but this is darwin"):
        host(1)


def test_a_process_that_has_ended_has_no_start() -> None:
    child = _context.Process(target=go_on)
    child.start()
    pid = child.pid
    assert pid is not None
    while started_at(pid):  # also before it was waited for
        time.sleep(0.01)
    child.join()
    assert started_at(pid) == 0
    assert started_at(os.getpid()) == started_at(os.getpid()) > 0
