"""The operations of groups that programs call most, recorded: functions around those of a class of groups.

Each is made once for a class, so that it knows the function that it calls, the recorder's words and the number of the operation. What it adds to a
call is a compiled call before, which begins the operation's flow, and one behind, which finds the site and writes the record
(:mod:`emu.trace.lines`). What an operation costs is not part of its event's time but for the call itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from operator import mul as _times
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import CommError, StoppedError
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.waiting import UNFIT
from emu.trace import lines
from emu.trace.events import Kind

if TYPE_CHECKING:
    from emu.trace.recorder import EventRecorder

Method = Callable[..., Any]


class Recorded(Protocol):
    """What operations know of their group, a :class:`emu.trace.groups.Recorded`."""

    members: tuple[int, ...]
    my_pe: int
    index: int
    _stride: int
    _my_place: int
    _passed: memoryview
    _barrier_number: int

    def _stopped(self, begun: int, kind: int, name: str) -> None: ...

    def _collective_number(self, name: str, given: Any, result: Any) -> tuple[int, int]: ...


# Names that are looked up on every call; the entries of compiled code are put in the place of the last five.
_now, _frame, _SET, _ndarray = time.monotonic_ns, sys._getframe, AtomicOp.SET, np.ndarray
begin, end = lines.begin, lines.end
end_of_wait, end_of_get, end_of_meeting = lines.end_of_wait, lines.end_of_get, lines.end_of_meeting

WRONG = (*UNFIT, IndexError, OverflowError, CommError)
"""Errors of a place that wrong arguments name; the operation itself says what is wrong."""

NOWHERE = -1


def _nbytes(source: Any, target: SymmetricArray) -> int:
    """Return the bytes that a put of ``source`` stores."""
    if type(source) is _ndarray:
        return source.nbytes
    nbytes = getattr(source, "nbytes", None)
    if nbytes is None:
        count = len(source) if isinstance(source, (list, tuple)) else 1
        nbytes = count * target.itemsize
    return int(nbytes)


def _start_of(array: SymmetricArray, offsets: Sequence[int]) -> int:
    """Return how far a tile's first element is from its array's."""
    return int(sum(map(_times, offsets, array.strides)))


def _element(array: SymmetricArray, index: int) -> int:
    """Return the offset in the heap of an element."""
    if type(index) is int and 0 <= index < array.words:
        return array.offset + index * array.itemsize
    return array.element_offset(index)


# --- put and get -----------------------------------------------------------------------------


def _put(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.PUT, name)

    def put(
        self: Recorded,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = _SET,
    ) -> None:
        try:
            peer = self.members[pe]
            place = peer * self._stride + dst.offset
            if offsets is not None:
                place += _start_of(dst, offsets)
            flow = begin(told, place, 1)
        except WRONG:
            peer, flow = -1, begin(told, NOWHERE, 1)
        base(self, dst, src, pe, offsets=offsets, op=op)
        nbytes = _nbytes(src, dst)
        if end(told, id(_frame(1)), number, 0, nbytes, flow, peer):
            missed(_frame(1), number, 0, nbytes, flow, peer)

    return put


def _get(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, number = recorder.told, recorder.number(Kind.GET, name)

    def get(
        self: Recorded,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Output | None = None,
    ) -> Array:
        begun = _now()
        tile: Array = base(self, src, pe, offsets=offsets, shape=shape, out=out)
        peer = self.members[pe]
        place = peer * self._stride + src.offset
        if offsets is not None:
            place += _start_of(src, offsets)
        if end_of_get(told, id(_frame(1)), number, begun, tile.nbytes, place, peer):
            recorder.missed_get(_frame(1), number, begun, tile.nbytes, place, peer)
        return tile

    return get


def _get_nbi(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, number = recorder.told, recorder.number(Kind.GET, name)

    def get_nbi(
        self: Recorded,
        src: SymmetricArray,
        pe: int,
        out: Output,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        begun = _now()
        base(self, src, pe, out, offsets=offsets, shape=shape)
        peer = self.members[pe]
        place = peer * self._stride + src.offset
        if offsets is not None:
            place += _start_of(src, offsets)
        if end_of_get(told, id(_frame(1)), number, begun, out.nbytes, place, peer):
            recorder.missed_get(_frame(1), number, begun, out.nbytes, place, peer)

    return get_nbi


# --- signals and atomics ---------------------------------------------------------------------


def _put_signal(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.SIGNAL, name)

    def put_signal(
        self: Recorded,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = _SET,
        sig_op: AtomicOp = _SET,
    ) -> None:
        try:
            peer = self.members[pe]
            flow = begin(told, peer * self._stride + _element(signal, index), 0)
        except WRONG:
            peer, flow = -1, begin(told, NOWHERE, 0)
        base(self, dst, src, pe, signal, value, index=index, offsets=offsets, op=op, sig_op=sig_op)
        nbytes = _nbytes(src, dst)
        if end(told, id(_frame(1)), number, 0, nbytes, flow, peer):
            missed(_frame(1), number, 0, nbytes, flow, peer)

    return put_signal


def _signal_op(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.SIGNAL, name)

    def signal_op(
        self: Recorded,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = _SET,
        index: int = 0,
    ) -> None:
        try:
            peer = self.members[pe]
            flow = begin(told, peer * self._stride + _element(signal, index), 0)
        except WRONG:
            peer, flow = -1, begin(told, NOWHERE, 0)
        base(self, signal, value, pe, op=op, index=index)
        if end(told, id(_frame(1)), number, 0, 0, flow, peer):
            missed(_frame(1), number, 0, 0, flow, peer)

    return signal_op


def _fetch(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.ATOMIC, name)

    def fetch(self: Recorded, target: SymmetricArray, pe: int, *, index: int = 0) -> int:
        if pe == self.my_pe:  # to look at its own memory, again and again perhaps, is no event
            own: int = base(self, target, pe, index=index)
            return own
        begun = _now()
        found: int = base(self, target, pe, index=index)
        size, peer = target.itemsize, self.members[pe]
        if end(told, id(_frame(1)), number, begun, size, 0, peer):
            missed(_frame(1), number, begun, size, 0, peer)
        return found

    return fetch


def _argument(args: Sequence[Any], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if place < len(args) else kwargs.get(name)


def _atomic(target: int, pe: int) -> Callable[[EventRecorder, Method, str], Method]:
    """Return what makes an atomic operation; ``target`` and ``pe`` are the places of these arguments."""

    def made(recorder: EventRecorder, base: Method, name: str) -> Method:
        told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.ATOMIC, name)
        changes = name != "fetch_nbi"

        def method(self: Recorded, *args: Any, **kwargs: Any) -> Any:
            array, member = (
                _argument(args, kwargs, target, "target"),
                _argument(args, kwargs, pe, "pe"),
            )
            begun = flow = 0
            try:
                peer = self.members[member]
                place = peer * self._stride + _element(array, kwargs.get("index", 0))
            except WRONG:
                peer, place = -1, NOWHERE
            if changes:
                flow = begin(told, place, 0)
            else:
                begun = _now()
            result = base(self, *args, **kwargs)
            if end(told, id(_frame(1)), number, begun, array.itemsize, flow, peer):
                missed(_frame(1), number, begun, array.itemsize, flow, peer)
            return result

        return method

    return made


# --- waits -----------------------------------------------------------------------------------


def _wait_until(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, number = recorder.told, recorder.number(Kind.WAIT, name)

    def wait_until(
        self: Recorded, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0
    ) -> int:
        begun = _now()
        try:
            seen: int = base(self, signal, cmp, value, index=index)
        except StoppedError:
            self._stopped(begun, Kind.WAIT, name)
            raise
        place = self._my_place + _element(signal, index)
        if end_of_wait(told, id(_frame(1)), number, begun, place, 0):
            recorder.missed_wait(_frame(1), number, begun, place, 0)
        return seen

    return wait_until


def _test(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, number = recorder.told, recorder.number(Kind.WAIT, name)

    def test(
        self: Recorded, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0
    ) -> bool:
        begun = _now()
        held: bool = base(self, signal, cmp, value, index=index)
        if held:  # a test that fails is no event
            place = self._my_place + _element(signal, index)
            if end_of_wait(told, id(_frame(1)), number, begun, place, 0):
                recorder.missed_wait(_frame(1), number, begun, place, 0)
        return held

    return test


def _completing(recorder: EventRecorder, base: Method, name: str) -> Method:
    told, missed, number = recorder.told, recorder.missed, recorder.number(Kind.COMPLETE, name)

    def complete(self: Recorded) -> None:
        begun = _now()
        base(self)
        if end(told, id(_frame(1)), number, begun, 0, 0, -1):
            missed(_frame(1), number, begun, 0, 0, -1)

    return complete


# --- what members do together ----------------------------------------------------------------


def _barrier(recorder: EventRecorder, base: Method, name: str) -> Method:
    told = recorder.told

    def barrier(self: Recorded) -> None:
        begun, passed = _now(), self._passed[0]
        try:
            base(self)
        except StoppedError:
            self._stopped(begun, Kind.BARRIER, name)
            raise
        number = self._barrier_number
        if end_of_meeting(told, id(_frame(1)), number, begun, 0, self.index, passed):
            recorder.missed_meeting(_frame(1), number, begun, 0, self.index, passed)

    return barrier


def _collective(recorder: EventRecorder, base: Method, name: str) -> Method:
    """Return a collective of any arguments, of which the first is the array."""
    told = recorder.told

    def collective(self: Recorded, *args: Any, **kwargs: Any) -> Any:
        begun, passed = _now(), self._passed[0]
        try:
            result = base(self, *args, **kwargs)
        except StoppedError:
            self._stopped(begun, Kind.COLLECTIVE, name)
            raise
        array = args[0] if args else kwargs.get("array")
        number, size = self._collective_number(name, array, result)
        if end_of_meeting(told, id(_frame(1)), number, begun, size, self.index, passed):
            recorder.missed_meeting(_frame(1), number, begun, size, self.index, passed)
        return result

    return collective


def _gathering(recorder: EventRecorder, base: Method, name: str) -> Method:
    """Return a collective of an array, ``out`` and nothing else."""
    told = recorder.told

    def collective(self: Recorded, array: Input, *, out: Output | None = None) -> Array:
        begun, passed = _now(), self._passed[0]
        try:
            result: Array = base(self, array, out=out)
        except StoppedError:
            self._stopped(begun, Kind.COLLECTIVE, name)
            raise
        number, size = self._collective_number(name, array, result)
        if end_of_meeting(told, id(_frame(1)), number, begun, size, self.index, passed):
            recorder.missed_meeting(_frame(1), number, begun, size, self.index, passed)
        return result

    return collective


def _reducing(recorder: EventRecorder, base: Method, name: str) -> Method:
    """Return a collective of an array, an operation and ``out``."""
    told = recorder.told

    def collective(
        self: Recorded, array: Input, op: str = "sum", *, out: Output | None = None
    ) -> Array:
        begun, passed = _now(), self._passed[0]
        try:
            result: Array = base(self, array, op, out=out)
        except StoppedError:
            self._stopped(begun, Kind.COLLECTIVE, name)
            raise
        number, size = self._collective_number(name, array, result)
        if end_of_meeting(told, id(_frame(1)), number, begun, size, self.index, passed):
            recorder.missed_meeting(_frame(1), number, begun, size, self.index, passed)
        return result

    return collective


_MAKERS: dict[str, Callable[[EventRecorder, Method, str], Method]] = {
    "put": _put,
    "put_nbi": _put,
    "get": _get,
    "get_nbi": _get_nbi,
    "put_signal": _put_signal,
    "put_signal_nbi": _put_signal,
    "signal_op": _signal_op,
    "fetch": _fetch,
    "fetch_add": _atomic(0, 2),
    "swap": _atomic(0, 2),
    "compare_swap": _atomic(0, 3),
    "fetch_add_nbi": _atomic(1, 3),
    "swap_nbi": _atomic(1, 3),
    "compare_swap_nbi": _atomic(1, 4),
    "fetch_nbi": _atomic(1, 2),
    "wait_until": _wait_until,
    "test": _test,
    "fence": _completing,
    "quiet": _completing,
    "barrier": _barrier,
    **dict.fromkeys(
        (*("broadcast", "scatter", "gather", "all_to_all_v", "permute"),),
        _collective,
    ),
    **dict.fromkeys(("all_gather", "all_to_all"), _gathering),
    **dict.fromkeys(("all_reduce", "reduce_scatter"), _reducing),
}
"""By the name of an operation what makes its method: of the recorder, the function of the class, and the name."""


def bound(recorder: EventRecorder, kind: type) -> dict[str, Method]:
    """Return the methods that do what those of a class of groups do, and record it."""
    methods: dict[str, Method] = {}
    for name, make in _MAKERS.items():
        methods[name] = named(make(recorder, getattr(kind, name), name), name)
    return methods


def bound_sync(recorder: EventRecorder, kind: type) -> Method:
    """Return the ``sync`` of a class of groups whose ``sync`` is no call of its barrier."""
    return named(_barrier(recorder, getattr(kind, "sync"), "sync"), "sync")  # noqa: B009 - of a class of groups


def named(method: Method, name: str) -> Method:
    """Return a method with a name and a docstring."""
    method.__name__, method.__qualname__ = name, f"Recorded.{name}"
    method.__doc__ = f"Do what :meth:`Group.{name}` does, and record it."
    return method
