"""Operations that record themselves: one call of compiled code finds the line, does the operation, and writes the record.

What is the same on every call of an operation of a group stands in the operation's *spot*, a row of words, so that few arguments are left. Each
function asks for the site first (:mod:`emu.trace.lines`). Where that is not known it has done nothing, and says so: Python
then calls the operation and records it by itself. What takes longer than a moment is done without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from emu.comm.layout import B_STRIDE
from emu.comm.sync import signals
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.locks import word
from emu.comm.sync.signal_numbers import DONE
from emu.comm.world.prepared_rounds import BEGIN
from emu.kernels.atomics import fence, load_i32
from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.c_calls import ADDRESS, call_at, call_c, give_gil, take_gil
from emu.kernels.core.jit import carray, entry_when_called, fixed_intrinsic, jit
from emu.kernels.core.quick_entry import quick_entry_when_called
from emu.trace.lines import T_FLOWS, T_RING, append, frame_back, meeting_flow, release, site_at
from emu.trace.ring import FLOW_PE_SHIFT, leave_flow, take_flow, take_put


class Spot(NamedTuple):
    """The words of an operation of a group."""

    told: int
    """Address of the recorder's words."""
    number: int
    """Of the operation, as :meth:`emu.trace.recorder.EventRecorder.number` returns it."""
    me: int
    """This PE's block."""
    heap: int = 0
    """Address of this PE's heap."""
    place: int = 0
    """Number of this PE times the distance of heaps: what places in it begin with."""
    group: int = 0
    """Number of the group."""
    barrier: int = 0
    """The group's barrier."""
    members: int = 0
    """How many the group has."""
    tag: int = 0
    """Of a barrier."""
    size: int = 0
    """Of a collective: bytes."""
    call: int = 0
    """The same: ``id()`` of its words (:mod:`emu.comm.world.prepared_rounds`)."""
    run: int = 0
    """The same: address of the compiled code that does it."""
    begun: int = 0
    """When the last one began, where that is not over when compiled code returns."""
    passed: int = 0
    """How often the group's barrier had been passed then."""


S_TOLD, S_NUMBER, S_ME, S_HEAP, S_PLACE, S_GROUP, S_BARRIER, S_MEMBERS = range(8)
S_TAG, S_SIZE, S_CALL, S_RUN, S_BEGUN, S_PASSED = range(8, 14)
SPOT_WORDS = len(Spot._fields)

MISSED = DONE + 8
"""Result: nothing was done, since the site is not known."""

NOT_DONE, UNFINISHED = -(1 << 63), 1 - (1 << 63)
"""Results of a wait other than the value seen: nothing was done, or as good as nothing; it goes on."""


@fixed_intrinsic(types.int64)
def _give_gil(builder: IrBuilder) -> IrValue:
    return give_gil(builder)


@fixed_intrinsic(types.void, types.int64)
def _take_gil(builder: IrBuilder, state: IrValue) -> None:
    take_gil(builder, state)


@fixed_intrinsic(types.int64)
def _frame_of_python(builder: IrBuilder) -> IrValue:
    """Return the frame that runs in Python, which nobody need release."""
    return call_c(builder, "PyEval_GetFrame", ADDRESS)


@jit()
def _site(spot: int) -> Any:
    """Return the site of an operation that the function which runs in Python was called for; -1: it is not known."""
    frame = frame_back(_frame_of_python())
    if frame == 0:
        return np.int64(-1)
    site = site_at(word(spot, S_TOLD), frame, word(spot, S_NUMBER))
    release(frame)
    return site


@jit()
def _begin_flow(spot: int, pe: int, offset: int, is_put: int) -> Any:
    """Begin a flow at a place of a PE's heap."""
    told = word(spot, S_TOLD)
    place = pe * word(word(spot, S_ME), B_STRIDE) + offset
    return leave_flow(word(told, T_RING), word(told, T_FLOWS), place, is_put)


@jit()
def _copy(me: int, pe: int, offset: int, source: int, nbytes: int) -> None:
    """Put dense memory; without the GIL where that takes long."""
    if nbytes <= signals.SHORT_BYTES:
        signals.put_dense(me, pe, offset, source, nbytes)
        return
    state = _give_gil()
    signals.put_dense(me, pe, offset, source, nbytes)
    _take_gil(state)


@jit(nogil=False)
def record_put(spot: int, pe: int, offset: int, source: int, nbytes: int) -> int:
    """Put as :func:`emu.comm.sync.signals.put_dense` does; return 1, or 0 if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0
    flow = _begin_flow(spot, pe, offset, 1)
    _copy(word(spot, S_ME), pe, offset, source, nbytes)
    append(word(spot, S_TOLD), site, 0, nbytes, flow, pe)
    return 1


@jit(nogil=False)
def record_get(spot: int, pe: int, offset: int, target: int, nbytes: int) -> int:
    """Get as :func:`emu.comm.sync.signals.get_dense` does; return 1, or 0 if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0
    told, me, begun = word(spot, S_TOLD), word(spot, S_ME), clock_ns()
    if nbytes <= signals.SHORT_BYTES:
        signals.get_dense(me, pe, offset, target, nbytes)
    else:
        state = _give_gil()
        signals.get_dense(me, pe, offset, target, nbytes)
        _take_gil(state)
    flow = take_put(word(told, T_RING), word(told, T_FLOWS), pe * word(me, B_STRIDE) + offset)
    append(told, site, begun, nbytes, flow, pe)
    return 1


@jit(nogil=False)
def record_signal(spot: int, pe: int, offset: int, size: int, operation: int, value: int) -> int:
    """Do a SET or an ADD as :func:`emu.comm.sync.signals.atomic` does; return 1, or 0 if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0
    flow = _begin_flow(spot, pe, offset, 0)
    signals.atomic(word(spot, S_ME), pe, offset, size, operation, value, 0)
    append(word(spot, S_TOLD), site, 0, 0, flow, pe)
    return 1


@jit(nogil=False)
def record_put_signal(
    spot: int,
    pe: int,
    offset: int,
    source: int,
    nbytes: int,
    word_offset: int,
    size: int,
    operation: int,
    value: int,
) -> int:
    """Put, then signal; return 1, or 0 if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0
    flow, me = _begin_flow(spot, pe, word_offset, 0), word(spot, S_ME)
    _copy(me, pe, offset, source, nbytes)
    signals.atomic(me, pe, word_offset, size, operation, value, 0)
    append(word(spot, S_TOLD), site, 0, nbytes, flow, pe)
    return 1


@jit(nogil=False)
def record_atomic(
    spot: int,
    pe: int,
    offset: int,
    size: int,
    operation: int,
    value: int,
    expected: int,
) -> Any:
    """Do what :func:`emu.comm.sync.signals.atomic` does; return (1, the old value), or (0, 0) if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0, np.int64(0)
    flow = _begin_flow(spot, pe, offset, 0)
    old = np.int64(signals.atomic(word(spot, S_ME), pe, offset, size, operation, value, expected))
    append(word(spot, S_TOLD), site, 0, size, flow, pe)
    return 1, old


@jit()
def _end_wait(spot: int, site: int, begun: int, offset: int) -> None:
    told = word(spot, S_TOLD)
    flow = take_flow(word(told, T_FLOWS), word(spot, S_PLACE) + offset, 0)[0]
    append(told, site, begun, 0, flow, (flow >> FLOW_PE_SHIFT) - 1)


@jit(nogil=False)
def record_wait(spot: int, offset: int, size: int, comparison: int, value: int) -> Any:
    """Wait for a word of this PE's heap as :func:`emu.comm.sync.signals.wait_word` does.

    Returns:
        The value seen; or ``NOT_DONE``; or ``UNFINISHED``: go on by ``wait_word``. It began at ``S_BEGUN``.
    """
    site = _site(spot)
    if site < 0:
        return np.int64(NOT_DONE)
    begun, address = clock_ns(), word(spot, S_HEAP) + offset
    seen = np.int64(signals.load_word(address, size))
    if not signals.holds(seen, comparison, value):  # type: ignore[arg-type]  # a kernel
        state = _give_gil()
        found, last = signals.wait_word(word(spot, S_ME), address, size, comparison, value, 0)
        _take_gil(state)
        if not found:
            carray(as_pointer(spot), (SPOT_WORDS,), np.int64)[S_BEGUN] = begun
            return np.int64(UNFINISHED)
        seen = np.int64(last)
    if seen <= UNFINISHED:
        return np.int64(NOT_DONE)  # the values are taken; another look will tell it
    _end_wait(spot, site, begun, offset)
    return seen


@jit(nogil=False)
def record_test(spot: int, offset: int, size: int, comparison: int, value: int) -> Any:
    """Test a word of this PE's heap as :func:`emu.comm.sync.signals.test_word` does; -1: it holds, and was not recorded."""
    begun = clock_ns()
    address = word(spot, S_HEAP) + offset
    polls = np.int64(signals.test_word(word(spot, S_ME), address, size, comparison, value))
    if polls == 0:  # a test that fails is no event
        site = _site(spot)
        if site < 0:
            return np.int64(-1)
        _end_wait(spot, site, begun, offset)
    return polls


@jit(nogil=False)
def record_fence(spot: int) -> int:
    """Issue a memory fence; return 1, or 0 if nothing was done."""
    site = _site(spot)
    if site < 0:
        return 0
    begun = clock_ns()
    fence()
    append(word(spot, S_TOLD), site, begun, 0, 0, -1)
    return 1


@jit()
def _meet(spot: int) -> Any:
    """Note when members begin to do something together; return that."""
    words = carray(as_pointer(spot), (SPOT_WORDS,), np.int64)
    words[S_BEGUN] = clock_ns()
    words[S_PASSED] = load_i32(word(spot, S_BARRIER) + 4)
    return words[S_BEGUN]


@jit()
def _end_meeting(spot: int, site: int, begun: int) -> None:
    flow = meeting_flow(word(spot, S_GROUP), word(spot, S_PASSED))
    append(word(spot, S_TOLD), site, begun, word(spot, S_SIZE), flow, -1)


@jit(nogil=False)
def record_barrier(spot: int) -> Any:
    """Arrive at a barrier as :func:`emu.comm.sync.signals.barrier_arrive` does, and record it if that is ``DONE``; or ``MISSED``."""
    site = _site(spot)
    if site < 0:
        return np.int64(MISSED)
    begun, me, barrier = _meet(spot), word(spot, S_ME), word(spot, S_BARRIER)
    arrived = signals.barrier_count(me, barrier, word(spot, S_MEMBERS), word(spot, S_TAG))
    if arrived < DONE:
        state = _give_gil()
        arrived = signals.barrier_stay(me, barrier, arrived)
        _take_gil(state)
    if arrived == DONE:
        _end_meeting(spot, site, begun)
    return arrived


@jit(nogil=False)
def record_call(spot: int, source: int, target: int) -> Any:
    """Begin a prepared collective of two ndarrays, given by their ``id()``, and record it if it is ``DONE`` then; or ``MISSED``.

    Else what :func:`emu.comm.world.prepared_rounds.run_call` returns.
    """
    site = _site(spot)
    if site < 0:
        return np.int64(MISSED)
    begun = _meet(spot)
    me, barrier, call = word(spot, S_ME), word(spot, S_BARRIER), word(spot, S_CALL)
    state = _give_gil()
    arrived = call_at(word(spot, S_RUN), (me, barrier, call, BEGIN, source, target))
    _take_gil(state)
    if arrived == DONE:
        _end_meeting(spot, site, begun)
    return arrived


put: Callable[..., int] = quick_entry_when_called(record_put, 5)
get: Callable[..., int] = quick_entry_when_called(record_get, 5)
signal: Callable[..., int] = quick_entry_when_called(record_signal, 6)
put_signal: Callable[..., int] = quick_entry_when_called(record_put_signal, 9)
atomic: Callable[..., tuple[int, int]] = entry_when_called(record_atomic, 7)
wait: Callable[..., int] = quick_entry_when_called(record_wait, 5)
test: Callable[..., int] = quick_entry_when_called(record_test, 5)
complete: Callable[..., int] = quick_entry_when_called(record_fence, 1)
barrier: Callable[..., int] = quick_entry_when_called(record_barrier, 1)
collective: Callable[..., int] = quick_entry_when_called(record_call, 3)
