"""The operations of plain groups that programs call most, recorded by the compiled call that does them (:mod:`emu.trace.fused`).

Each method begins with the conditions of the fast path of :class:`~emu.comm.world.group.Group`'s own. What does not fulfil them, and an operation
at a line that compiled code does not know yet, goes around by the method of :mod:`emu.trace.operations`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.errors import StoppedError
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.sync import signal_numbers
from emu.comm.sync.entry_points import wait_word
from emu.comm.world.agreement import BARRIER, mismatch, pass_barrier
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.waiting import UNFIT, describe_wait
from emu.trace import fused, fused_rows, lines, operations
from emu.trace.events import Kind
from emu.trace.fused import MISSED, S_BEGUN, S_NUMBER, S_PASSED, UNFINISHED, Spot

if TYPE_CHECKING:
    from emu.trace.recorder import EventRecorder

    class PlainGroup(Group):
        """What these methods know of their group."""

        _recorder: EventRecorder
        _passed: memoryview
        _spots: Spots

        def _stopped(self, begun: int, kind: int, name: str) -> None: ...

        def _end_meeting(self, number: int, begun: int, size: int, passed: int) -> None: ...

        def _collective_number(self, name: str, given: Any, result: Any) -> tuple[int, int]: ...
else:
    PlainGroup = Group

Method = Callable[..., Any]

# Names that are looked up on every call; the entries of compiled code are put in the place of the last.
_frame, _ndarray, _now = sys._getframe, np.ndarray, time.monotonic_ns
_SET, _ADD = AtomicOp.SET, AtomicOp.ADD
_SET_WORD, _ADD_WORD = signal_numbers.SET, signal_numbers.ADD
_SWAP_WORD, _CAS_WORD, _DONE = signal_numbers.SWAP, signal_numbers.CAS, signal_numbers.DONE
_put, _get, _signal, _put_signal, _atomic = (
    *(fused.put, fused.get, fused.signal, fused.put_signal, fused.atomic),
)
_wait, _test, _complete, _barrier = fused.wait, fused.test, fused.complete, fused.barrier

_KINDS = {
    "put": Kind.PUT,
    "put_nbi": Kind.PUT,
    "get": Kind.GET,
    **dict.fromkeys(("signal_op", "put_signal", "put_signal_nbi"), Kind.SIGNAL),
    **dict.fromkeys(("fetch_add", "swap", "compare_swap"), Kind.ATOMIC),
    **dict.fromkeys(("wait_until", "test"), Kind.WAIT),
    **dict.fromkeys(("fence", "quiet"), Kind.COMPLETE),
}


class Spots:
    """Where the operations of a group have their words; the addresses are attributes with the names of the operations."""

    put: int
    put_nbi: int
    get: int
    signal_op: int
    put_signal: int
    put_signal_nbi: int
    fetch_add: int
    swap: int
    compare_swap: int
    wait_until: int
    test: int
    fence: int
    quiet: int
    barrier: int
    last_barrier: memoryview
    """The words of the barrier."""
    last_wait: memoryview
    """The words of ``wait_until``."""

    def __init__(self, group: Group, recorder: EventRecorder, place: int, barrier: int) -> None:
        def spot(number: int) -> Spot:
            return Spot(
                told=recorder.told,
                number=number,
                me=group.me,
                heap=group.mine,
                place=place,
                group=group.index,
                barrier=group.barrier_address,
                members=group.n_pes,
                tag=BARRIER,
            )

        rows = [spot(recorder.number(kind, name)) for name, kind in _KINDS.items()]
        self._words: Words = np.array([*rows, spot(barrier)], np.int64)
        for name, row in zip((*_KINDS, "barrier"), self._words, strict=True):
            setattr(self, name, int(row.ctypes.data))
        self.last_barrier = self._words[-1].data
        self.last_wait = self._words[list(_KINDS).index("wait_until")].data
        self.plain = spot(0)
        """The words of an operation that has none of its own."""


# --- put and get -----------------------------------------------------------------------------


def _make_put(around: Method, name: str) -> Method:
    is_nbi = name == "put_nbi"

    def put(
        self: PlainGroup,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = _SET,
    ) -> None:
        try:
            if (
                offsets is None
                and type(src) is _ndarray
                and src.dtype is dst.dtype
                and src.shape == dst.shape
                and dst.dense
                and dst.group is self
                and 0 <= pe < self.n_pes
                and src.flags.c_contiguous
                and not dst.root.freed
                and op is _SET
            ):
                spots = self._spots
                if _put(
                    spots.put_nbi if is_nbi else spots.put,
                    self.members[pe],
                    dst.offset,
                    id(src),
                    dst.nbytes,
                ):
                    return
        except UNFIT:
            pass
        around(self, dst, src, pe, offsets=offsets, op=op)

    return put


def _make_get(around: Method, name: str) -> Method:
    def get(
        self: PlainGroup,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Output | None = None,
    ) -> Array:
        try:
            if (
                offsets is None
                and shape is None
                and out is None
                and src.dense
                and src.group is self
                and 0 <= pe < self.n_pes
                and not src.root.freed
            ):
                tile = np.empty(src.shape, src.dtype)
                spot, peer = self._spots.get, self.members[pe]
                if _get(spot, peer, src.offset, id(tile), src.nbytes):
                    return tile
        except UNFIT:
            pass
        found: Array = around(self, src, pe, offsets=offsets, shape=shape, out=out)
        return found

    return get


# --- signals and atomics ---------------------------------------------------------------------


def _make_signal_op(around: Method, name: str) -> Method:
    def signal_op(
        self: PlainGroup,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = _SET,
        index: int = 0,
    ) -> None:
        try:
            if (
                type(value) is int
                and type(index) is int
                and signal.group is self
                and 0 <= pe < self.n_pes
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal.root.freed
                and (op is _SET or op is _ADD)
            ):
                size = signal.itemsize
                if _signal(
                    self._spots.signal_op,
                    self.members[pe],
                    signal.offset + index * size,
                    size,
                    _SET_WORD if op is _SET else _ADD_WORD,
                    value,
                ):
                    return
        except UNFIT:
            pass
        around(self, signal, value, pe, op=op, index=index)

    return signal_op


def _make_put_signal(around: Method, name: str) -> Method:
    is_nbi = name == "put_signal_nbi"

    def put_signal(
        self: PlainGroup,
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
            if (
                offsets is None
                and op is _SET
                and type(src) is _ndarray
                and src.dtype is dst.dtype
                and src.shape == dst.shape
                and dst.dense
                and dst.group is self
                and 0 <= pe < self.n_pes
                and src.flags.c_contiguous
                and not dst.root.freed
                and type(value) is int
                and type(index) is int
                and signal.group is self
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal.root.freed
                and (sig_op is _SET or sig_op is _ADD)
            ):
                size, spots = signal.itemsize, self._spots
                if _put_signal(
                    spots.put_signal_nbi if is_nbi else spots.put_signal,
                    self.members[pe],
                    dst.offset,
                    id(src),
                    dst.nbytes,
                    signal.offset + index * size,
                    size,
                    _SET_WORD if sig_op is _SET else _ADD_WORD,
                    value,
                ):
                    return
        except UNFIT:
            pass
        around(
            self, dst, src, pe, signal, value, index=index, offsets=offsets, op=op, sig_op=sig_op
        )

    return put_signal


def _make_exchange(around: Method, name: str) -> Method:
    """Return ``fetch_add`` or ``swap``."""
    operation, is_swap = (_SWAP_WORD, True) if name == "swap" else (_ADD_WORD, False)

    def exchange(
        self: PlainGroup, target: SymmetricArray, value: int, pe: int, *, index: int = 0
    ) -> int:
        try:
            if (
                type(value) is int
                and type(index) is int
                and target.group is self
                and 0 <= pe < self.n_pes
                and target.word > 0
                and 0 <= index < target.words
                and target.low_word <= value <= target.high_word
                and not target.root.freed
            ):
                size, spots = target.word, self._spots
                done, old = _atomic(
                    spots.swap if is_swap else spots.fetch_add,
                    self.members[pe],
                    target.offset + index * size,
                    size,
                    operation,
                    value,
                    0,
                )
                if done:
                    return old
        except UNFIT:
            pass
        found: int = around(self, target, value, pe, index=index)
        return found

    return exchange


def _make_compare_swap(around: Method, name: str) -> Method:
    def compare_swap(
        self: PlainGroup,
        target: SymmetricArray,
        expected: int,
        value: int,
        pe: int,
        *,
        index: int = 0,
    ) -> int:
        try:
            if (
                type(value) is int
                and type(expected) is int
                and type(index) is int
                and target.group is self
                and 0 <= pe < self.n_pes
                and target.word > 0
                and 0 <= index < target.words
                and target.low_word <= value <= target.high_word
                and target.low_word <= expected <= target.high_word
                and not target.root.freed
            ):
                size = target.word
                done, old = _atomic(
                    self._spots.compare_swap,
                    self.members[pe],
                    target.offset + index * size,
                    size,
                    _CAS_WORD,
                    value,
                    expected,
                )
                if done:
                    return old
        except UNFIT:
            pass
        found: int = around(self, target, expected, value, pe, index=index)
        return found

    return compare_swap


# --- waits -----------------------------------------------------------------------------------


def _make_wait_until(around: Method, name: str) -> Method:
    def wait_until(
        self: PlainGroup, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0
    ) -> int:
        try:
            plain = (
                type(cmp) is Cmp
                and type(value) is int
                and type(index) is int
                and signal.group is self
                and signal.word > 0
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal.root.freed
            )
        except UNFIT:
            plain = False
        if plain:
            offset = signal.offset + index * signal.itemsize
            spot = self._spots.wait_until
            seen = _wait(spot, offset, signal.word, cmp, value)
            if seen > UNFINISHED:
                return seen
            if seen == UNFINISHED:
                return _go_on(self, (signal, index, cmp, value), offset)
        found: int = around(self, signal, cmp, value, index=index)
        return found

    return wait_until


def _go_on(self: PlainGroup, where: tuple[SymmetricArray, int, Cmp, int], offset: int) -> int:
    """Go on waiting for a word that has not come for a slice, and record the wait; return the value seen."""
    signal, _, cmp, value = where
    address, recorder, spots = self.mine + offset, self._recorder, self._spots
    begun = spots.last_wait[S_BEGUN]
    try:
        seen = self._sleep(
            lambda: wait_word(self.me, address, signal.word, cmp, value, 1),
            lambda: describe_wait("wait_until", [where], 1),
        )
    except StoppedError:
        self._stopped(begun, Kind.WAIT, "wait_until")
        raise
    number, place = recorder.number(Kind.WAIT, "wait_until"), spots.plain.place + offset
    if lines.end_of_wait(recorder.told, id(_frame(2)), number, begun, place, 0):
        recorder.missed_wait(_frame(2), number, begun, place, 0)
    return seen


def _make_test(around: Method, name: str) -> Method:
    def test(
        self: PlainGroup, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0
    ) -> bool:
        try:
            plain = (
                type(cmp) is Cmp
                and type(value) is int
                and type(index) is int
                and signal.group is self
                and signal.word > 0
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal.root.freed
            )
        except UNFIT:
            plain = False
        spots = self._spots
        if plain:
            size = signal.word
            offset = signal.offset + index * size
            polls = _test(spots.test, offset, size, cmp, value)
        else:
            address, size, comparison, wanted = self._row(signal, index, cmp, value)
            offset = address - self.mine
            polls = _test(spots.test, offset, size, comparison, wanted)
        if not polls:
            return True
        if polls > 0:
            return self._polled(polls, [(signal, index, cmp, value)])
        recorder, now = self._recorder, _now()
        number = recorder.number(Kind.WAIT, "test")
        recorder.missed_wait(_frame(1), number, now, spots.plain.place + offset, 0)
        return True

    return test


def _make_complete(around: Method, name: str) -> Method:
    is_fence = name == "fence"

    def complete(self: PlainGroup) -> None:
        spots = self._spots
        if not _complete(spots.fence if is_fence else spots.quiet):
            around(self)

    return complete


# --- what members do together ----------------------------------------------------------------


def _make_barrier(around: Method, name: str) -> Method:
    def barrier(self: PlainGroup) -> None:
        arrived = _barrier(self._spots.barrier)
        if arrived == _DONE:
            return
        if arrived == MISSED:
            around(self)
            return
        words = self._spots.last_barrier
        begun, passed = words[S_BEGUN], words[S_PASSED]
        try:
            if not pass_barrier(self, arrived, self.name):
                raise mismatch(self, "barrier()")
        except StoppedError:
            self._stopped(begun, Kind.BARRIER, "barrier")
            raise
        self._end_meeting(words[S_NUMBER], begun, 0, passed)

    return barrier


def _in_general(
    self: PlainGroup, base: Method, name: str, arguments: tuple[Any, ...], out: Output | None
) -> Array:
    """Do a collective that is not prepared, and record it."""
    exchange = self._exchange_made
    calls: Any = None if exchange is None else exchange.prepared
    begun, passed = (calls and calls.take_left()) or (_now(), self._passed[0])
    try:
        result: Array = base(self, *arguments, out=out)
    except StoppedError:
        self._stopped(begun, Kind.COLLECTIVE, name)
        raise
    number, size = self._collective_number(name, arguments[0], result)
    self._end_meeting(number, begun, size, passed)
    return result


def _make_gathering(base: Method, name: str) -> Method:
    """Return a collective of an array, ``out`` and nothing else."""

    def collective(self: PlainGroup, array: Input, *, out: Output | None = None) -> Array:
        exchange: Any = self._exchange_made  # a RecordedExchange
        done = None if exchange is None else exchange.prepared.record(name, None, array, out)
        return _in_general(self, base, name, (array,), out) if done is None else done

    return collective


def _make_reducing(base: Method, name: str) -> Method:
    """Return a collective of an array, an operation and ``out``."""

    def collective(
        self: PlainGroup, array: Input, op: str = "sum", *, out: Output | None = None
    ) -> Array:
        exchange: Any = self._exchange_made  # a RecordedExchange
        done = None if exchange is None else exchange.prepared.record(name, op, array, out)
        return _in_general(self, base, name, (array, op), out) if done is None else done

    return collective


def _make_broadcast(base: Method, name: str) -> Method:
    def broadcast(
        self: PlainGroup, array: Input | None, root: int = 0, *, out: Output | None = None
    ) -> Array:
        exchange: Any = self._exchange_made
        done = None
        if exchange is not None and type(root) is int:
            done = exchange.prepared.record(name, root, array, out)
        return _in_general(self, base, name, (array, root), out) if done is None else done

    return broadcast


_MAKERS: dict[str, Callable[[Method, str], Method]] = {
    **dict.fromkeys(("put", "put_nbi"), _make_put),
    "get": _make_get,
    "signal_op": _make_signal_op,
    **dict.fromkeys(("put_signal", "put_signal_nbi"), _make_put_signal),
    **dict.fromkeys(("fetch_add", "swap"), _make_exchange),
    "compare_swap": _make_compare_swap,
    "wait_until": _make_wait_until,
    "test": _make_test,
    **dict.fromkeys(("fence", "quiet"), _make_complete),
    "barrier": _make_barrier,
}
"""By the name of an operation what makes its method: of the method to go around by, and the name."""

_COLLECTIVES: dict[str, Callable[[Method, str], Method]] = {
    **dict.fromkeys(("all_gather", "all_to_all"), _make_gathering),
    **dict.fromkeys(("all_reduce", "reduce_scatter"), _make_reducing),
    "broadcast": _make_broadcast,
}
"""The same of collectives that may be prepared: of the class's own method, and the name."""


def bound(kind: type[Group], around: dict[str, Method]) -> dict[str, Method]:
    """Return the methods of a class of plain groups that record themselves.

    Args:
        kind: The class.
        around: Its methods that :mod:`emu.trace.operations` has made.
    """
    made = {name: make(around[name], name) for name, make in _MAKERS.items()}
    made["sync"] = made["barrier"]
    for name, make in _COLLECTIVES.items():
        made[name] = make(getattr(kind, name), name)
    made |= {"_store_rows": fused_rows.store_rows, "_load_rows": fused_rows.load_rows}
    return {name: operations.named(method, name) for name, method in made.items()}
