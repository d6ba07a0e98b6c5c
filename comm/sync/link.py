"""The emulated link in compiled code: reserve a link for a transfer, and sleep until it is over.

Every ordered pair of PEs (source, target) has a link, which is one word of shared memory: until when
it is busy. A transfer of n bytes takes it from then on (or from now, if it is idle) for
n / bandwidth, and is complete one latency after that. One compare-and-exchange reserves it, so
any thread of any PE can, and nobody waits for a lock.

*How to sleep.* Lateness and processor time of a transfer of 10 µs to 4 ms, measured on two cores (Linux
6.18), means of 150 to 400 transfers each; "busy" is beside two or four processes that compute:

    ==========================================  ============  ==============  ==============
    method                                      late, idle    late, busy      processor time
    ==========================================  ============  ==============  ==============
    sleep, timer slack 50 µs (the default)      66 to 90 µs   not measured    13 to 16 µs
    sleep, timer slack 1 ns                     14 to 45 µs   15 to 92 µs     11 to 20 µs
    the same 20 µs short, then ``sched_yield``  0.3 to 34 µs  240 to 4500 µs  7 to 26 µs
    the same 20 µs short, then ``pause``        0.1 to 49 µs  0.1 to 84 µs    13 to 35 µs
    ==========================================  ============  ==============  ==============

To yield beside a process that computes is to give it the core for its whole slice of 4 ms. To fall
asleep and to wake take 13 µs of the processor by themselves, so the last 20 µs are spent in ``pause``.
The slack is set for the sleep alone, for the calling thread alone, and put back behind it.

The server's loop calls :func:`reserve` and :func:`sleep_until`; Python sleeps slice by slice
(:func:`sleep_slice`) and handles signals in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.layout import B_LINK_BANDWIDTH, B_LINK_LATENCY, B_LINKS, B_N_PES, B_WAITS
from emu.comm.link_model import Link
from emu.comm.sync.clock import clock_ns, sleep_to
from emu.comm.sync.futex import pause
from emu.comm.sync.locks import word
from emu.comm.sync.signals import stopped
from emu.kernels.atomics import add_i64, compare_exchange_i64, load_i64
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit

SLICE_NS = 50_000_000
"""Longest sleep before a check whether the world was stopped."""

LEAD_NS = 20_000
"""Time that is left to wait after a sleep, so that a thread which wakes late is still in time."""

_LONGEST_NS = 2.0**60
_LAST_NS = 1 << 61


@jit(nogil=False)  # it is over before another thread could be woken
def reserve_from(me: int, source: int, target: int, nbytes: int, earliest: int) -> Any:
    """Take the link from PE ``source`` to PE ``target`` for a transfer that begins at ``earliest`` or later.

    Args:
        me: Address of this PE's block.
        source: World number of the PE that sends; any PE may reserve any link.
        target: World number of the PE that receives.
        nbytes: Number of bytes sent.
        earliest: Time of :func:`emu.comm.sync.clock.clock_ns`.

    Returns:
        The time when the transfer is complete, on the same clock; 0 if there is nothing to wait for: no
        link, both are the same PE, or there are no bytes.
    """
    links = word(me, B_LINKS)
    if links == 0 or source == target or nbytes <= 0:
        return np.int64(0)
    bandwidth = carray(as_pointer(me + 8 * B_LINK_BANDWIDTH), (1,), np.float64)[0]
    taken = np.int64(min(np.ceil(nbytes * 1e9 / bandwidth), _LONGEST_NS))
    busy = links + 8 * (source * word(me, B_N_PES) + target)
    while True:
        seen = load_i64(busy)
        end = min(max(np.int64(earliest), seen) + taken, _LAST_NS)
        if compare_exchange_i64(busy, seen, end) == seen:
            return end + word(me, B_LINK_LATENCY)


@jit(nogil=False)
def reserve(me: int, source: int, target: int, nbytes: int) -> Any:
    """Reserve a link from now on: :func:`reserve_from` with the present time."""
    return reserve_from(me, source, target, nbytes, clock_ns())


@jit()
def sleep_slice(me: int, deadline: int) -> int:
    """Sleep until ``deadline``, at most one slice of 50 ms.

    Each slice counts as progress of this PE, so that a long transfer is not taken for a deadlock.

    Returns:
        1 when the deadline has passed (at once for 0); 0 after a slice, a signal, or when the world was stopped.
    """
    now = clock_ns()
    if now >= deadline:
        return 1
    if stopped(me):
        return 0
    if deadline - now > LEAD_NS:
        sleep_to(min(deadline - LEAD_NS, now + SLICE_NS))
        add_i64(me + 8 * B_WAITS, 1)
        if deadline - clock_ns() > LEAD_NS:
            return 0
    while clock_ns() < deadline:
        pause()
    return 1


@jit()
def sleep_until(me: int, deadline: int) -> None:
    """Sleep until ``deadline``, a result of :func:`reserve`, or until the world is stopped.

    Python code must not call it in a PE's main thread: no signal would be handled meanwhile.
    """
    while sleep_slice(me, deadline) == 0 and not stopped(me):
        pass


__all__ = ["LEAD_NS", "SLICE_NS", "Link", "reserve", "reserve_from", "sleep_slice", "sleep_until"]
