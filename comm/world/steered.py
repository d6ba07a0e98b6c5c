"""Groups whose operations wait until :class:`~emu.comm.world.steering.Steering` lets them happen.

Every public operation first asks what steers the PE, and then does what that of
:class:`~emu.comm.world.listened.ListenedGroup` does. A wait asks with its condition: the PE comes to the native wait when
that holds, so that it sleeps nowhere but where it asks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from emu.comm.arrays import Array
from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.fault_options import Faults
from emu.comm.memory.segment import Segment
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.schedule_options import Schedule
from emu.comm.sync import signal_numbers, signals
from emu.comm.world import recording
from emu.comm.world.array import Input, SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.listened import (
    LinkedListenedGroup,
    LinkedListenedWorld,
    ListenedGroup,
    ListenedWorld,
)
from emu.comm.world.listened_array import ListenedArray, tile_of
from emu.comm.world.listening import Listener, Tile, load_room
from emu.comm.world.locking import place_of
from emu.comm.world.scopes import Scope
from emu.comm.world.steering import Span, Steering, load_faults
from emu.comm.world.steering import load_room as load_schedules
from emu.comm.world.unchecked import UncheckedListener
from emu.comm.world.waiting import UNFIT, Word, encode
from emu.comm.world.world import World

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_Told = tuple[str, Sequence[Span]]
"""An operation as a trace shows it, and the memory that it uses."""

_Parts = tuple[
    tuple[tuple[Any, ...], dict[str, Any]] | None, tuple[SymmetricArray, int, int, AtomicOp, int]
]
"""Arguments of the put of a put_signal, None where there is none; and of its signal."""


def asks(method: F, tell: Callable[..., _Told], *, looks: bool = False, sends: bool = False) -> F:
    """Return a method that asks what steers its PE, and then does what another one does.

    Args:
        method: The other one.
        tell: Is called as it is; returns what is told of it. Wrong arguments are left to ``method``.
        looks: As of :meth:`Steering.point`.
        sends: Whether what it writes may arrive later; then it writes nothing when it is called.
    """
    name = method.__name__

    @functools.wraps(method)
    def ask_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            text, spans = tell(self, *args, **kwargs)
        except (*UNFIT, IndexError):
            text, spans = "", ()
        used = _used_now(self.steering, spans) if sends else spans
        self.steering.point(f"{name} {text}".rstrip(), used, looks=looks)
        result = method(self, *args, **kwargs)
        self.steering.done()
        return result

    return cast("F", ask_first)


def asks_of_signal(method: F, tell: Callable[..., _Told], parts: Callable[..., _Parts]) -> F:
    """Return a method as :func:`asks` does, of an operation whose signal may get lost, or arrive twice.

    Args:
        method: The other one.
        tell: As of :func:`asks`.
        parts: Is called as it is; returns what does all but the signal, and the signal.
    """
    name = method.__name__

    @functools.wraps(method)
    def ask_first(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            text, spans = tell(self, *args, **kwargs)
            lossless, (signal, value, pe, op, index) = parts(*args, **kwargs)
            encode(signal.dtype, value)
        except (*UNFIT, LookupError, ArgumentError):  # the operation itself says what is wrong
            text, spans = "", ()
        self.steering.point(f"{name} {text}".rstrip(), _used_now(self.steering, spans))
        times = self.steering.signals(spans[-1].pe) if spans else 1
        if times:
            method(self, *args, **kwargs)
        elif lossless is not None:
            ListenedGroup.put(self, *lossless[0], **lossless[1])
        if times > 1:
            self.steering.repeats = True
            ListenedGroup.signal_op(self, signal, value, pe, op=op, index=index)
            self.steering.repeats = False
        self.steering.done()

    return cast("F", ask_first)


def _used_now(steering: Steering, spans: Sequence[Span]) -> Sequence[Span]:
    """Return what an operation that sends uses when it is called: where stores may arrive late, it writes nothing yet."""
    return [span for span in spans if not span.writes] if steering.late else spans


def _signal_parts(
    signal: SymmetricArray, value: int, pe: int, *, op: AtomicOp = AtomicOp.SET, index: int = 0
) -> _Parts:
    return None, (signal, value, pe, op, index)


def _put_signal_parts(
    dst: SymmetricArray,
    src: object,
    pe: int,
    signal: SymmetricArray,
    value: int,
    *,
    index: int = 0,
    sig_op: AtomicOp = AtomicOp.SET,
    **put: object,
) -> _Parts:
    return ((dst, src, pe), put), (signal, value, pe, sig_op, index)


def span_of(array: SymmetricArray, world_pe: int, *, writes: bool) -> Span:
    """Return the bytes from the first to the last of an array on a PE."""
    return _span_of_tile(tile_of(array, world_pe, array.offset, array.shape), writes=writes)


def _span_of_tile(tile: Tile, *, writes: bool) -> Span:
    low = high = 0
    for extent, stride in zip(tile.shape, tile.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return Span(tile.pe, tile.offset + low, tile.offset + high + tile.itemsize, writes)


def _at(group: Group, array: SymmetricArray, pe: int, *, writes: bool) -> Span:
    return span_of(array, group.members[pe], writes=writes)


def _put(self: Group, dst: SymmetricArray, src: object, pe: int, **_: object) -> _Told:
    return f"{dst.label} to PE {pe}", [_at(self, dst, pe, writes=True), *_own(src, writes=False)]


def _own(value: object, *, writes: bool) -> list[Span]:
    """Return the memory of an input or output that is symmetric itself."""
    if isinstance(value, SymmetricArray):
        return [span_of(value, value.group.members[value.group.my_pe], writes=writes)]
    return []


def _get(self: Group, src: SymmetricArray, pe: int, *_: object, **__: object) -> _Told:
    return f"{src.label} from PE {pe}", [_at(self, src, pe, writes=False)]


def _put_signal(
    self: Group,
    dst: SymmetricArray,
    src: object,
    pe: int,
    signal: SymmetricArray,
    *_: object,
    **__: object,
) -> _Told:
    text, spans = _put(self, dst, src, pe)
    return f"{text}, {signal.label}", [*spans, _at(self, signal, pe, writes=True)]


def _word(self: Group, array: SymmetricArray, pe: int, index: int, *, writes: bool = True) -> _Told:
    start = array.element_offset(index)
    place = Span(self.members[pe], start, start + array.itemsize, writes)
    return f"{array.label}[{index}] of PE {pe}", [place]


def _atomic(
    self: Group, target: SymmetricArray, value: int, pe: int, *, index: int = 0, **_: object
) -> _Told:
    return _word(self, target, pe, index)


def _swaps(
    self: Group, target: SymmetricArray, expected: int, value: int, pe: int, *, index: int = 0
) -> _Told:
    return _word(self, target, pe, index)


def _fetches(self: Group, target: SymmetricArray, pe: int, *, index: int = 0) -> _Told:
    return _word(self, target, pe, index, writes=False)


def _starts(self: Group, out: object, target: SymmetricArray, *rest: Any, **named: Any) -> _Told:
    pe = named["pe"] if "pe" in named else rest[-1]
    return _word(self, target, pe, named.get("index", 0))


def _tests(self: Group, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> _Told:
    text, spans = _word(self, signal, self.my_pe, index, writes=False)
    return f"{text} {Cmp(cmp).name} {value}", spans


def _tests_more(self: Group, signals_: SymmetricArray, *_: object, **__: object) -> _Told:
    return signals_.label, _own(signals_, writes=False)


def _locks(self: Group, lock: SymmetricArray, *, index: int = 0) -> _Told:
    start = lock.element_offset(index)
    home = lock.group.members[0]
    place = Span(home, start, start + lock.itemsize, True)
    return f"{lock.label}[{index}]", [place]


def _nothing(self: Group, *_: object, **__: object) -> _Told:
    return "", ()


class SteeredArray(ListenedArray):
    """A symmetric array whose memory is used when what steers the PE lets it."""

    __slots__ = ()

    @property
    def local(self) -> Array:
        """This PE's memory; loads and stores act on it directly."""
        return self._view(self.group.my_pe)

    def on(self, pe: int) -> Array:
        """Return PE ``pe``'s memory as an ndarray, without a copy."""
        return self._view(pe)

    def _view(self, pe: int) -> Array:
        group = cast("SteeredGroup", self.group)
        noted = group.listener.view(self.on_silently(pe))
        return group.steering.view(noted, span_of(self, group.members[pe], writes=True), self.label)

    def __setitem__(self, key: Any, value: Any) -> None:
        cast("SteeredGroup", self.group).steering.point(
            f"store {self.label}", _own(self, writes=True)
        )
        super().__setitem__(key, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        cast("SteeredGroup", self.group).steering.point(
            f"load {self.label}", _own(self, writes=False), looks=True
        )
        return super().__array__(dtype, copy)


class SteeredScope(Scope):
    """A scope whose beginning and end ask what steers the PE."""

    __slots__ = ("_ask", "_inside")

    def __init__(self, inside: Scope, ask: Callable[[str], None]) -> None:
        super().__init__(inside.view)
        self._inside, self._ask = inside, ask

    def __enter__(self) -> Array:
        self._ask("begins")
        return self._inside.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._ask("ends")
        self._inside.__exit__(kind, error, trace)


class SteeredGroup(ListenedGroup):
    """A group whose operations happen when what steers its PE lets them."""

    steering: Steering
    _array_type = SteeredArray
    _is_direct = False

    put = asks(ListenedGroup.put, _put, sends=True)
    get = asks(ListenedGroup.get, _get)
    put_nbi = asks(ListenedGroup.put_nbi, _put, sends=True)
    get_nbi = asks(ListenedGroup.get_nbi, _get)
    put_signal = asks_of_signal(ListenedGroup.put_signal, _put_signal, _put_signal_parts)
    put_signal_nbi = asks_of_signal(ListenedGroup.put_signal_nbi, _put_signal, _put_signal_parts)
    signal_op = asks_of_signal(ListenedGroup.signal_op, _atomic, _signal_parts)
    fetch_add = asks(ListenedGroup.fetch_add, _atomic)
    swap = asks(ListenedGroup.swap, _atomic)
    compare_swap = asks(ListenedGroup.compare_swap, _swaps)
    fetch = asks(ListenedGroup.fetch, _fetches, looks=True)
    fetch_add_nbi = asks(ListenedGroup.fetch_add_nbi, _starts)
    swap_nbi = asks(ListenedGroup.swap_nbi, _starts)
    compare_swap_nbi = asks(ListenedGroup.compare_swap_nbi, _starts)
    fetch_nbi = asks(ListenedGroup.fetch_nbi, _starts)
    test = asks(ListenedGroup.test, _tests, looks=True)
    test_all = asks(ListenedGroup.test_all, _tests_more, looks=True)
    test_some = asks(ListenedGroup.test_some, _tests_more, looks=True)
    test_lock = asks(ListenedGroup.test_lock, _locks, looks=True)
    alloc = asks(ListenedGroup.alloc, _nothing)
    release = asks(ListenedGroup.release, _nothing)

    # --- memory and stores -----------------------------------------------------------------

    def _allocate(
        self,
        label: str,
        extents: tuple[int, ...],
        kind: np.dtype[np.generic],
        name: str,
        *,
        poison: bool,
    ) -> int:
        nbytes = math.prod(extents) * kind.itemsize
        if not self.steering.has_room():
            raise self.heap.no_room(nbytes)
        index = super()._allocate(label, extents, kind, name, poison=poison)
        start = self.heap.entry(index)[0]
        self.steering.allocated(self.members[self.my_pe], start, start + nbytes)
        return index

    def _target(
        self, dst: SymmetricArray, src: Input, pe: int, offsets: Sequence[int] | None
    ) -> tuple[Tile, Array]:
        target, source = super()._target(dst, src, pe, offsets)
        return target, self.steering.carried(target.pe, source)

    def _store(self, dst: SymmetricArray, source: Array, target: Tile, adds: bool) -> None:
        if not self.steering.late:
            super()._store(dst, source, target, adds)
            return
        data = np.array(source)
        later = super()._store
        self.steering.send(
            "put", _span_of_tile(target, writes=True), lambda: later(dst, data, target, adds)
        )

    def fence(self) -> None:
        """Order stores as :meth:`Group.fence` does."""
        self.steering.note("fence")
        self.steering.fence()
        super().fence()

    def quiet(self) -> None:
        """Complete stores as :meth:`Group.quiet` does."""
        self.steering.note("quiet")
        self.steering.quiet()
        super().quiet()

    def _scope(self, array: SymmetricArray, pe: int | None, *, writes: bool) -> Scope:
        inside = super()._scope(array, pe, writes=writes)
        member = self._member(array, pe)
        span = span_of(array, array.group.world_pe(member), writes=writes)
        what = f"{'writing' if writes else 'reading'} {array.label}"
        return SteeredScope(inside, lambda end: self.steering.point(f"{what} {end}", [span]))

    # --- waits -----------------------------------------------------------------------------

    def wait_until(self, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> int:
        """Wait as :meth:`Group.wait_until` does."""
        self._wait("wait_until", [(signal, index, cmp, value)], 1)
        return super().wait_until(signal, cmp, value, index=index)

    def wait_for(
        self, words: Sequence[Word], describe: str = "wait_for", *, needed: int = 1
    ) -> list[int]:
        """Wait as :meth:`Group.wait_for` does."""
        words = self._words(words)
        if words and type(needed) is int and 1 <= needed <= len(words):
            self._wait(str(describe), words, needed)
        return super().wait_for(words, describe, needed=needed)

    def _wait(self, operation: str, words: Sequence[Word], needed: int) -> None:
        """Return when some words hold and this PE may go on."""
        table, matched = self._table(words), np.zeros(len(words), np.int64)
        shown = ", ".join(f"{w[0].label}[{w[1]}] {Cmp(w[2]).name} {w[3]}" for w in words[:3])
        spans = [
            Span(self.members[self.my_pe], start, start + array.itemsize, False)
            for array, index, _, _ in words
            for start in (array.element_offset(index),)
        ]

        def holds() -> bool:
            signals.count_held(table, matched)
            return bool(np.count_nonzero(matched) >= needed)

        self.steering.wait(f"{operation} {shown}", spans, holds)

    # --- locks -----------------------------------------------------------------------------

    def set_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Take a lock as :meth:`Group.set_lock` does; which PE gets it next is what steers them to say."""
        owner, words, _ = self._lock(lock, index)
        text, spans = _locks(self, lock, index=index)
        tail = owner.members[0], words.offset, 4

        def holds() -> bool:
            return not signals.atomic(self.me, *tail, signal_numbers.FETCH, 0, 0)

        if not place_of(owner, words, text):  # else it raises
            self.steering.wait(f"set_lock {text}", spans, holds)
        super().set_lock(lock, index=index)

    def clear_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Release a lock as :meth:`Group.clear_lock` does."""
        text, spans = _locks(self, lock, index=index)
        self.steering.point(f"clear_lock {text}", spans)
        self.steering.quiet()
        super().clear_lock(lock, index=index)

    # --- meetings --------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait as :meth:`Group.barrier` does."""
        with self.steering.meet("barrier", self):
            super().barrier()

    def _meet(
        self,
        operation: str,
        call: Callable[[], T],
        members: Iterable[int],
        *,
        inputs: Sequence[object] = (),
        outputs: Sequence[object] = (),
    ) -> T:
        with self.steering.meet(operation, self):
            return super()._meet(operation, call, members, inputs=inputs, outputs=outputs)


class LinkedSteeredGroup(SteeredGroup, LinkedListenedGroup):
    """A steered group whose members are connected by emulated links."""


class SteeredWorld(SteeredGroup, ListenedWorld):
    """The group of all PEs, steered."""

    _group_type = SteeredGroup

    def group(self, name: str, pes: Sequence[int] | None = None) -> Group:
        """Make or find a group as :meth:`World.group` does."""
        self.steering.point(f"group {name}", ())
        found = super().group(name, pes)
        assert isinstance(found, SteeredGroup)
        found.steering = self.steering
        return found

    def finish(self) -> None:
        """Run the callbacks of :meth:`on_finish`, and tell what listens and what steers."""
        super().finish()
        self.steering.finish()


class LinkedSteeredWorld(LinkedSteeredGroup, LinkedListenedWorld, SteeredWorld):
    """The group of all PEs, steered and with emulated links."""

    _group_type = LinkedSteeredGroup


def make_steered_world(
    segment: Segment,
    me: int,
    pe: int,
    *,
    poison: bool,
    checks: Checks,
    schedule: Schedule | None,
    faults: Faults | None,
    is_recorded: bool = False,
) -> World:
    """Make the World of a PE, as :func:`emu.comm.world.making.make_world` does, with a schedule, faults or both."""
    kind = SteeredWorld if segment.link is None else LinkedSteeredWorld
    world = recording.class_of(kind, is_recorded)(segment, me, pe, poison=poison)
    steering: Steering | None = None
    if schedule is not None:
        # A race check knows by itself what a late store would show, and is told of a store when that is done.
        late = schedule.late and not checks.watches_pes and segment.link is None
        steering = load_schedules().steer(segment, me, pe, schedule, late=late)
    if faults is not None:
        steering = load_faults().inject(segment, pe, faults, steering)
    assert steering is not None  # else nothing asks for this kind of world
    world.steering = steering
    between = 2 if is_recorded else 1
    world.listener = _listener(segment, me, pe, checks, world.steering, between)
    return world


def _listener(
    segment: Segment, me: int, pe: int, checks: Checks, steering: Steering, between: int
) -> Listener:
    if not checks.watches_pes:
        return UncheckedListener(me, steering)
    return load_room().listen(segment, me, pe, checks, between=between)
