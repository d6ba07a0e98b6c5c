"""Which site an operation has, found in compiled code by the line of the program that runs.

Python notes in the *recorder's words* which code is the program's, and which site an operation has at an instruction of it. What ends
an operation walks from the frame of its caller outwards to the program's, asks for the site there, and appends the record:
one call for all of it. Where something is not known it records nothing, and Python does it (:meth:`emu.trace.recorder.EventRecorder.missed`), which
notes it for the next time.

Frames are read by the functions that Python has for that. All of it happens with the GIL held, so that the tables have one user at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from emu.comm.layout import WRITER_HASH
from emu.comm.sync.clock import clock_ns
from emu.comm.sync.locks import word
from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.c_calls import ADDRESS, call_c
from emu.kernels.core.jit import carray, entry_when_called, fixed_intrinsic, jit
from emu.trace.events import MEETING_BIT, MEETING_SHIFT
from emu.trace.ring import (
    FLOW_PE_SHIFT,
    PEER_SHIFT,
    begin_of,
    leave_flow,
    put_record,
    take_flow,
    take_put,
)

T_RING, T_FLOWS, T_BEGUN, T_HELD, T_MAIN, T_CODES, T_SITES = range(7)
"""Words of a recorder: addresses of the ring and of the table of flows; when a kernel's barrier or wait began; the frame at whose line the main
thread's operations are, or 0; the main thread; addresses of the tables of codes and of sites."""
T_OF_KERNELS = 8
"""From here on: sites of what kernels do."""
RECORDER_WORDS = 16

_CODE_BITS, _SITE_BITS, _PROBES = 10, 11, 8
CODES, SITES = 1 << _CODE_BITS, 1 << _SITE_BITS
"""Entries of the tables. A code has its address and whose it is; a site has code, instruction and operation, and its number."""
CODE_WORDS, SITE_WORDS = 2, 4
_FURTHEST = 64  # frames

PROGRAM, OTHER = 1, 2
"""Whose a code is."""

GENERATIONS = 0x7FFFFFFF
"""The bits that a flow has of how often a barrier was passed."""


@fixed_intrinsic(types.int64, types.int64)
def frame_back(builder: IrBuilder, frame: IrValue) -> IrValue:
    """Return the frame that has called another, which must be released; 0: there is none."""
    return call_c(builder, "PyFrame_GetBack", ADDRESS, frame)


@fixed_intrinsic(types.int64, types.int64)
def _frame_code(builder: IrBuilder, frame: IrValue) -> IrValue:
    return call_c(builder, "PyFrame_GetCode", ADDRESS, frame)


@fixed_intrinsic(types.int64, types.int64)
def _frame_instruction(builder: IrBuilder, frame: IrValue) -> IrValue:
    return builder.sext(call_c(builder, "PyFrame_GetLasti", ir.IntType(32), frame), ADDRESS)


@fixed_intrinsic(types.void, types.int64)
def release(builder: IrBuilder, object_: IrValue) -> None:
    """Give up a reference to an object."""
    call_c(builder, "Py_DecRef", ir.VoidType(), object_)


@fixed_intrinsic(types.int64)
def _this_thread(builder: IrBuilder) -> IrValue:
    return call_c(builder, "pthread_self", ADDRESS)


@jit()
def _hashed(value: int | np.int64, bits: int) -> Any:
    return np.int64(np.uint64(value) * np.uint64(WRITER_HASH) >> np.uint64(64 - bits))


@jit()
def _whose(told: int, code: int) -> Any:
    """Return whose a code is; 0: not known."""
    table = carray(as_pointer(word(told, T_CODES)), (CODES * CODE_WORDS,), np.int64)
    first = _hashed(code, _CODE_BITS)
    for step in range(_PROBES):
        at = ((first + step) & (CODES - 1)) * CODE_WORDS
        if table[at] == code:
            return table[at + 1]
        if table[at] == 0:
            break
    return np.int64(0)


@jit(nogil=False)
def note_code(told: int, code: int, whose: int) -> None:
    """Note whose a code is; one of many that share a place may be forgotten for it."""
    table = carray(as_pointer(word(told, T_CODES)), (CODES * CODE_WORDS,), np.int64)
    first = _hashed(code, _CODE_BITS)
    place = first * CODE_WORDS
    for step in range(_PROBES):
        at = ((first + step) & (CODES - 1)) * CODE_WORDS
        if table[at] == 0 or table[at] == code:
            place = at
            break
    table[place], table[place + 1] = code, whose


@jit()
def _site_place(told: int, code: int, instruction: int, number: int, adds: bool) -> Any:
    """Return the address of an entry in the table of sites; 0: there is none. Where one is added there always is."""
    sites = word(told, T_SITES)
    first = _hashed(code ^ instruction << 20 ^ number << 42, _SITE_BITS)
    for step in range(_PROBES):
        place = sites + ((first + step) & (SITES - 1)) * (8 * SITE_WORDS)
        entry = carray(as_pointer(place), (SITE_WORDS,), np.int64)
        if entry[0] == code and entry[1] == instruction and entry[2] == number:
            return place
        if entry[0] == 0:
            return place if adds else np.int64(0)
    return sites + first * (8 * SITE_WORDS) if adds else np.int64(0)


@jit()
def _frame_site(told: int, frame: int, number: int) -> Any:
    """Return the site of an operation at the line of a frame of the program; -1: it is not known."""
    code, instruction = _frame_code(frame), _frame_instruction(frame)
    release(code)  # the frame has it, too
    place = _site_place(told, code, instruction, number, False)
    return word(place, 3) if place != 0 else np.int64(-1)


@jit()
def _program_frame(told: int, frame: int) -> Any:
    """Return the innermost frame of the program, from a frame outwards; 0: it is not known. Who called it releases it, unless it is the given one."""
    at = np.int64(frame)
    for _ in range(_FURTHEST):
        code = _frame_code(at)
        whose = _whose(told, code)
        release(code)
        if whose == PROGRAM:
            return at
        back = frame_back(at) if whose == OTHER else np.int64(0)
        if at != frame:
            release(at)
        if back == 0:
            break
        at = back
    return np.int64(0)


@jit()
def site_at(told: int, frame: int, number: int) -> Any:
    """Return the site of an operation whose caller's frame is given; -1: Python must say."""
    if _this_thread() != word(told, T_MAIN):
        return np.int64(-1)
    held = word(told, T_HELD)
    if held != 0:
        return _frame_site(told, held, number)
    at = _program_frame(told, frame)
    if at == 0:
        return np.int64(-1)
    site = _frame_site(told, at, number)
    if at != frame:
        release(at)
    return site


@jit(nogil=False)
def note_site(told: int, frame: int, number: int, site: int) -> None:
    """Note the site of an operation at the line of a frame of the program."""
    code, instruction = _frame_code(frame), _frame_instruction(frame)
    release(code)
    place = _site_place(told, code, instruction, number, True)
    entry = carray(as_pointer(place), (SITE_WORDS,), np.int64)
    entry[0], entry[1], entry[2], entry[3] = code, instruction, number, site


@jit(nogil=False)
def hold_line(told: int, frame: int) -> Any:
    """Let the main thread's operations be at the line of the program that runs now, unless they are at one already.

    Returns:
        1: they are from now on; 0: they were, or this is another thread; -1: the program's frame is not known.
    """
    held = carray(as_pointer(told), (RECORDER_WORDS,), np.int64)
    if _this_thread() != held[T_MAIN] or held[T_HELD] != 0:
        return 0
    at = _program_frame(told, frame)
    if at == 0:
        return -1
    if at != frame:
        release(at)  # what calls this is called by it, so that it lives on
    held[T_HELD] = at
    return 1


# --- ends of operations ----------------------------------------------------------------------


@jit()
def append(told: int, site: int, begun: int, size: int, flow: int | np.int64, peer: int) -> None:
    """Append the record of an operation that ends now, at a site."""
    now = clock_ns()
    start = begin_of(flow, now) if begun == 0 else begun
    what = site | peer << PEER_SHIFT
    put_record(word(told, T_RING), start, max(now - start, 0), size, flow, what)


@jit(nogil=False)
def end_operation(
    told: int, frame: int, number: int, begun: int, size: int, flow: int, peer: int
) -> int:
    """Append the record of an operation that ends now.

    Args:
        told: The recorder's words.
        frame: ``id()`` of the frame that has called it.
        number: Of the operation, as :meth:`emu.trace.recorder.EventRecorder.number` returns it.
        begun: When it began; 0: when its flow did.
        size: As the field of :data:`emu.trace.events.EVENT`.
        flow: The same.
        peer: The same.

    Returns:
        0; or 1, and nothing was recorded: its site is not known.
    """
    site = site_at(told, frame, number)
    if site < 0:
        return 1
    append(told, site, begun, size, flow, peer)
    return 0


@jit(nogil=False)
def end_wait(told: int, frame: int, number: int, begun: int, place: int, since: int) -> int:
    """Append the record of a wait for the word at a place, with who has changed that last; else as :func:`end_operation`.

    Args:
        told: As of :func:`end_operation`.
        frame: The same.
        number: The same.
        begun: The same.
        place: As of :func:`emu.trace.ring.leave_flow`.
        since: What was done to the word before has not ended it.
    """
    site = site_at(told, frame, number)
    if site < 0:
        return 1
    flow = take_flow(word(told, T_FLOWS), place, since)[0]
    append(told, site, begun, 0, flow, (flow >> FLOW_PE_SHIFT) - 1)
    return 0


@jit(nogil=False)
def end_get(
    told: int, frame: int, number: int, begun: int, size: int, place: int, peer: int
) -> int:
    """Append the record of a get from a place, with the put that it follows; else as :func:`end_operation`."""
    site = site_at(told, frame, number)
    if site < 0:
        return 1
    flow = take_put(word(told, T_RING), word(told, T_FLOWS), place)
    append(told, site, begun, size, flow, peer)
    return 0


@jit()
def meeting_flow(group: int, passed: int | np.int64) -> Any:
    """Return the flow of a barrier or collective of a group whose barrier was passed so often before: the same number at each member."""
    return MEETING_BIT | group << MEETING_SHIFT | (np.int64(passed) & GENERATIONS)


@jit(nogil=False)
def end_meeting(
    told: int, frame: int, number: int, begun: int, size: int, group: int, passed: int
) -> int:
    """Append the record of what the members of a group did together; else as :func:`end_operation`."""
    site = site_at(told, frame, number)
    if site < 0:
        return 1
    append(told, site, begun, size, meeting_flow(group, passed), -1)
    return 0


@jit(nogil=False)
def begin_flow(told: int, place: int, is_put: int) -> Any:
    """Begin a flow at a place, as :func:`emu.trace.ring.leave_flow` does; its number says when."""
    return leave_flow(word(told, T_RING), word(told, T_FLOWS), place, is_put)


begin: Callable[..., int] = entry_when_called(begin_flow, 3)
end: Callable[..., int] = entry_when_called(end_operation, 7)
end_of_wait: Callable[..., int] = entry_when_called(end_wait, 6)
end_of_get: Callable[..., int] = entry_when_called(end_get, 7)
end_of_meeting: Callable[..., int] = entry_when_called(end_meeting, 7)
hold: Callable[..., int] = entry_when_called(hold_line, 2)
know_code: Callable[..., None] = entry_when_called(note_code, 3)
know_site: Callable[..., None] = entry_when_called(note_site, 4)
