"""What compiled kernels ask of the machine (:mod:`emu.comm.sync.kernel_calls`), recorded, without Python.

A kernel knows the machine words, these know the PE's block, and the block has the address of the *recorder's words*: of the ring, of the
table of flows, and the sites of what kernels do. Kernels have no lines there: the event of the launch, which lies around theirs, has one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.layout import B_RECORDER
from emu.comm.sync import kernel_calls as plain
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.kernel_numbers import GROUP_BYTES, GROUPS, ME, MY_PE, STRIDE
from emu.comm.sync.locks import word
from emu.comm.sync.signal_numbers import DONE, FETCH
from emu.kernels.atomics import load_i32
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit
from emu.trace.events import Kind
from emu.trace.lines import (
    RECORDER_WORDS,
    T_BEGUN,
    T_FLOWS,
    T_OF_KERNELS,
    T_RING,
    meeting_flow,
)
from emu.trace.recorder import EventRecorder
from emu.trace.ring import FLOW_PE_SHIFT, end_now, leave_flow, take_flow, take_put

_PUT, _GET, _SIGNAL, _ATOMIC, _WAIT, _BARRIER, _COMPLETE = range(T_OF_KERNELS, T_OF_KERNELS + 7)
_SITES = {
    _PUT: (Kind.PUT, "put"),
    _GET: (Kind.GET, "get"),
    _SIGNAL: (Kind.SIGNAL, "put_signal"),
    _ATOMIC: (Kind.ATOMIC, "atomic"),
    _WAIT: (Kind.WAIT, "wait"),
    _BARRIER: (Kind.BARRIER, "barrier"),
    _COMPLETE: (Kind.COMPLETE, "quiet"),
}


def write_sites(recorder: EventRecorder) -> None:
    """Write the sites of what kernels do into the recorder's words, whose address belongs into the PE's block."""
    for place, (kind, name) in _SITES.items():
        recorder.words[place] = recorder.site(kind, f"{name} in a kernel")


@jit()
def _place(machine: int, pe: int, offset: int) -> Any:
    return pe * word(machine, STRIDE) + offset


@jit()
def _told(machine: int) -> Any:
    """Return the address of the recorder's words."""
    return word(word(machine, ME), B_RECORDER)


@jit()
def put(machine: int, pe: int, offset: int, source: int, nbytes: int) -> int:
    """As :func:`emu.comm.sync.kernel_calls.put`."""
    told, begun = _told(machine), clock_ns()
    ring = word(told, T_RING)
    flow = leave_flow(ring, word(told, T_FLOWS), _place(machine, pe, offset), 1)
    plain.put(machine, pe, offset, source, nbytes)
    end_now(ring, begun, nbytes, flow, word(told, _PUT), pe)
    return 0


@jit()
def get(machine: int, pe: int, offset: int, target: int, nbytes: int) -> int:
    """As :func:`emu.comm.sync.kernel_calls.get`."""
    told, begun = _told(machine), clock_ns()
    ring = word(told, T_RING)
    plain.get(machine, pe, offset, target, nbytes)
    flow = take_put(ring, word(told, T_FLOWS), _place(machine, pe, offset))
    end_now(ring, begun, nbytes, flow, word(told, _GET), pe)
    return 0


@jit()
def atomic(
    machine: int, pe: int, offset: int, size: int, operation: int, value: int, expected: int
) -> Any:
    """As :func:`emu.comm.sync.kernel_calls.atomic`."""
    told, begun, flow = _told(machine), clock_ns(), np.int64(0)
    ring = word(told, T_RING)
    if operation != FETCH:
        flow = leave_flow(ring, word(told, T_FLOWS), _place(machine, pe, offset), 0)
    old = plain.atomic(machine, pe, offset, size, operation, value, expected)
    end_now(ring, begun, size, flow, word(told, _ATOMIC), pe)
    return old


@jit()
def put_signal(
    machine: int,
    pe: int,
    offset: int,
    source: int,
    nbytes: int,
    signal: int,
    size: int,
    operation: int,
    value: int,
) -> int:
    """As :func:`emu.comm.sync.kernel_calls.put_signal`."""
    told, begun = _told(machine), clock_ns()
    ring = word(told, T_RING)
    flow = leave_flow(ring, word(told, T_FLOWS), _place(machine, pe, signal), 0)
    plain.put_signal(machine, pe, offset, source, nbytes, signal, size, operation, value)
    end_now(ring, begun, nbytes, flow, word(told, _SIGNAL), pe)
    return 0


@jit()
def quiet(machine: int) -> int:
    """As :func:`emu.comm.sync.kernel_calls.quiet`."""
    told, begun = _told(machine), clock_ns()
    plain.quiet(machine)
    end_now(word(told, T_RING), begun, 0, 0, word(told, _COMPLETE), -1)
    return 0


@jit()
def wait_begins(machine: int) -> int:
    """Return when a wait begins: now."""
    return clock_ns()


@jit()
def waited(machine: int, offset: int, size: int, comparison: int, value: int, begun: int) -> int:
    """Record a wait that has ended."""
    told = _told(machine)
    place = _place(machine, word(machine, MY_PE), offset)
    flow = take_flow(word(told, T_FLOWS), place, 0)[0]
    site, peer = word(told, _WAIT), (flow >> FLOW_PE_SHIFT) - 1
    end_now(word(told, T_RING), begun, 0, flow, site, peer)
    return 0


@jit()
def _end_barrier(machine: int, group: int, generation: int) -> None:
    told = _told(machine)
    flow = meeting_flow(group, generation)
    end_now(word(told, T_RING), word(told, T_BEGUN), 0, flow, word(told, _BARRIER), -1)


@jit()
def arrive(machine: int, group: int) -> Any:
    """As :func:`emu.comm.sync.kernel_calls.arrive`."""
    begun = carray(as_pointer(_told(machine)), (RECORDER_WORDS,), np.int64)
    begun[T_BEGUN] = clock_ns()
    barrier = word(machine, GROUPS) + group * word(machine, GROUP_BYTES)
    generation = load_i32(barrier + 4)
    arrived = plain.arrive(machine, group)
    if arrived >= DONE:
        _end_barrier(machine, group, generation)
    return arrived


@jit()
def passed(machine: int, group: int, generation: int) -> Any:
    """As :func:`emu.comm.sync.kernel_calls.passed`, which a kernel calls once, when a barrier is over."""
    if generation < DONE:  # else it came last, and its arrival was the end
        _end_barrier(machine, group, generation)
    return plain.passed(machine, group, generation)


CALLS = {
    function.__name__: function
    for function in (put, get, put_signal, atomic, quiet, wait_begins, waited, arrive, passed)
}
"""What replaces the function of the same name."""
