"""The clock of all PEs, and sleeping by it."""

from __future__ import annotations

from emu.comm.sync.clock import clock_ns, sleep_to

MS = 1_000_000


def test_the_clock_sleeps_until_the_time_and_not_for_the_past():
    deadline = clock_ns() + 3 * MS
    while clock_ns() < deadline:  # a signal may end a sleep
        sleep_to(deadline)
    sleep_to(0)
    assert clock_ns() >= deadline
