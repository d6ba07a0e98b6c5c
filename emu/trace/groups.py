"""Classes of groups that do what others do, and record it.

:func:`recorded` puts :class:`Recorded` in front of a class of groups: of a plain world, or of one that is listened to, steered, or has
links. Each method calls the next class's, with one frame between the program and that. What an operation costs is not part
of its event's time but for the call itself: the event is written when it is over.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from emu.comm.errors import StoppedError
from emu.comm.layout import B_RECORDER
from emu.comm.ops import Cmp
from emu.comm.world import recording
from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.waiting import Word
from emu.comm.world.world import World
from emu.kernels.core.annotations import Dispatcher
from emu.trace import fused_operations, lines, ring
from emu.trace.events import Kind
from emu.trace.fused_calls import RecordedExchange
from emu.trace.fused_operations import Spots
from emu.trace.names import unnumbered, with_unnumbered
from emu.trace.operations import NOWHERE, WRONG, bound, bound_sync
from emu.trace.ring import FLOW_PE_SHIFT

if TYPE_CHECKING:
    from emu.trace.recorder import EventRecorder

G = TypeVar("G", bound=Group)

# Names that are looked up on every call; the entries of compiled code are put in the place of the last five.
_now, _ndarray = time.monotonic_ns, np.ndarray
write, leave, take = ring.write, ring.leave, ring.take
end_of_meeting, end_of_operation = lines.end_of_meeting, lines.end

_SIGNAL, _WAIT, _LOCK, _COLLECTIVE, _ALLOCATE = map(
    int, (Kind.SIGNAL, Kind.WAIT, Kind.LOCK, Kind.COLLECTIVE, Kind.ALLOCATE)
)


class Recorded(Group):
    """A group whose operations are recorded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        recorder: Any = recording.active
        self._recorder: EventRecorder = recorder
        self._ring, self._flows = recorder.ring, recorder.flows
        self._stride = self.segment.layout.stride
        self._my_place = self.members[self.my_pe] * self._stride
        start = self.segment.layout.groups + self.index * self.segment.layout.group_bytes + 4
        # How often the group's barrier was passed, which each collective passes, too. Nobody passes it once more before this
        # member comes, so that it is the same number at each member.
        self._passed = self.segment.bytes[start : start + 4].view(np.int32).data
        self._barrier_number = recorder.number(
            Kind.BARRIER, "barrier", self._members, (self.index, self.name)
        )
        self._spots = Spots(self, recorder, self._my_place, self._barrier_number)
        self._last: dict[str, tuple[Any, tuple[int, ...], tuple[int, int]]] = {}

    # --- waits -----------------------------------------------------------------------------

    def _ended(self, begun: int, name: str, words: Iterable[tuple[SymmetricArray, int]]) -> None:
        """Record a wait, with who has changed one of its words last."""
        flow = latest = 0
        for array, index in words:
            found, left = take(self._flows, self._my_place + array.element_offset(index), 0)
            if found and left >= latest:
                flow, latest = found, left
        peer = (flow >> FLOW_PE_SHIFT) - 1
        write(self._ring, begun, 0, flow, self._recorder.here(_WAIT, name), peer)

    def note_wait_of_kernel(self, offset: int, begun: int) -> None:
        """Record that a wait of a kernel has ended for a word at an offset from this PE's heap."""
        flow, _ = take(self._flows, self._my_place + offset, 0)
        site = self._recorder.here(_WAIT, "wait in a kernel")
        write(self._ring, begun, 0, flow, site, (flow >> FLOW_PE_SHIFT) - 1)

    def _stopped(self, begun: int, kind: int, name: str) -> None:
        """Record an operation that did not come to its end: the world was stopped."""
        site = self._recorder.here(kind, name, {"text": "the world was stopped"}, key="stopped")
        write(self._ring, begun, 0, 0, site, -1)

    def wait_for(
        self, words: Sequence[Word], describe: str = "wait_for", *, needed: int = 1
    ) -> list[int]:
        """Wait as :meth:`Group.wait_for` does."""
        listed = words if isinstance(words, list) else self._words(words)
        begun, name = _now(), with_unnumbered(describe)
        try:
            held = super().wait_for(listed, describe, needed=needed)
        except StoppedError:
            self._stopped(begun, _WAIT, name)
            raise
        self._ended(begun, name, [listed[i][:2] for i in held])
        return held

    def test_some(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Test as :meth:`Group.test_some` does; a test that fails is no event."""
        begun = _now()
        found = super().test_some(signals_, cmp, values, indices=indices)
        if found:
            self._ended(begun, "test_some", [(signals_, index) for index in found])
        return found

    def test_all(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> bool:
        """Test as :meth:`Group.test_all` does; a test that fails is no event."""
        picked = list(indices) if isinstance(indices, Iterable) else indices
        begun = _now()
        held = super().test_all(signals_, cmp, values, indices=picked)
        if held:
            chosen = range(signals_.size) if picked is None else picked
            self._ended(begun, "test_all", [(signals_, index) for index in chosen])
        return held

    # --- locks -----------------------------------------------------------------------------

    def _lock_place(self, lock: SymmetricArray, index: int) -> int:
        """Return the place of a lock: that of its word on its first member."""
        return int(lock.group.members[0] * self._stride + lock.element_offset(index))

    def _locked(self, begun: int, name: str, lock: SymmetricArray, index: int) -> None:
        """Record that this PE has got a lock, and from whom if it had to wait."""
        flow, _ = take(self._flows, self._lock_place(lock, index), begun)
        site = self._recorder.here(_LOCK, name)
        write(self._ring, begun, 0, flow, site, (flow >> FLOW_PE_SHIFT) - 1)

    def set_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Take a lock as :meth:`Group.set_lock` does."""
        begun = _now()
        try:
            super().set_lock(lock, index=index)
        except StoppedError:
            self._stopped(begun, _LOCK, "set_lock")
            raise
        self._locked(begun, "set_lock", lock, index)

    def test_lock(self, lock: SymmetricArray, *, index: int = 0) -> bool:
        """Take a lock as :meth:`Group.test_lock` does."""
        begun = _now()
        taken = super().test_lock(lock, index=index)
        if taken:
            self._locked(begun, "test_lock", lock, index)
        return taken

    def clear_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Release a lock as :meth:`Group.clear_lock` does."""
        begun = _now()
        try:
            place = self._lock_place(lock, index)
        except WRONG:
            place = NOWHERE
        flow = leave(self._ring, self._flows, place, 0)
        super().clear_lock(lock, index=index)
        site = self._recorder.here(_SIGNAL, "clear_lock")
        write(self._ring, begun, 0, flow, site, -1)

    # --- what members do together ----------------------------------------------------------

    def _members(self) -> dict[str, Any]:
        """Return what is known of a barrier."""
        return {"members": self.members, "group": self.name}

    def _end_meeting(self, number: int, begun: int, size: int, passed: int) -> None:
        """Record what members did together, for the program that has called this group."""
        recorder, index, frame = self._recorder, self.index, sys._getframe(1)
        if end_of_meeting(recorder.told, id(frame), number, begun, size, index, passed):
            recorder.missed_meeting(frame, number, begun, size, index, passed)

    def _collective_number(self, name: str, given: Any, result: Any) -> tuple[int, int]:
        """Return the number of a collective of arrays like this one, and their bytes."""
        last = self._last.get(name)  # a program calls the same again, as a rule
        if (
            last is not None
            and type(given) is _ndarray
            and given.dtype is last[0]
            and given.shape == last[1]
        ):
            return last[2]
        array = given if hasattr(given, "nbytes") else result
        size, dtype, shape = 0, None, ()
        if hasattr(array, "nbytes"):
            size, dtype, shape = int(array.nbytes), array.dtype, tuple(array.shape)

        def details() -> dict[str, Any]:
            return {**self._members(), "dtype": str(dtype), "shape": list(shape)}

        key = (self.index, self.name, dtype, shape)
        found = self._recorder.number(_COLLECTIVE, name, details, key), size
        if array is given:
            self._last[name] = dtype, shape, found
        return found

    # --- memory ----------------------------------------------------------------------------

    def alloc(
        self,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        name: str = "",
        key: str | None = None,
        poison: bool = True,
    ) -> SymmetricArray:
        """Allocate as :meth:`Group.alloc` does."""
        begun = _now()
        array = super().alloc(shape, dtype, name=name, key=key, poison=poison)
        of_site = (array.dtype, array.shape)

        def details() -> dict[str, Any]:
            return {"dtype": str(array.dtype), "shape": list(array.shape)}

        number = self._recorder.number(_ALLOCATE, _named("alloc", name), details, of_site)
        self._sized(number, begun, array.nbytes)
        return array

    def release(self, array: SymmetricArray) -> None:
        """Free as :meth:`Group.release` does."""
        begun = _now()
        super().release(array)
        number = self._recorder.number(_ALLOCATE, _named("free", array.name))
        self._sized(number, begun, -array.nbytes)

    def _sized(self, number: int, begun: int, size: int) -> None:
        """Record an operation with a size, for the program that has called what calls this."""
        recorder, frame = self._recorder, sys._getframe(2)
        if end_of_operation(recorder.told, id(frame), number, begun, size, 0, -1):
            recorder.missed(frame, number, begun, size)


@functools.lru_cache(1024)
def _named(what: str, name: str) -> str:
    """Return what the event of an array's memory is called."""
    return f"{what} {unnumbered(name)}".rstrip()


def _native_kernel_calls(self: Recorded) -> Mapping[str, Dispatcher]:
    """Return the compiled functions that kernels call, recorded; the first kernel that communicates asks for them."""
    from emu.trace import kernel_calls

    block = self.segment.block(self.members[self.my_pe])
    if not block[B_RECORDER]:
        kernel_calls.write_sites(self._recorder)
        block[B_RECORDER] = self._recorder.told
    return kernel_calls.CALLS


def recorded(kind: type[G]) -> type[G]:
    """Return the class of groups that do what those of ``kind`` do, and record it: for the recorder of this process."""
    recorder: Any = recording.active
    found = recorder.classes.get(kind)
    if found is None:
        found = recorder.classes[kind] = _make(kind, recorder)
    return cast("type[G]", found)


def _make(kind: type[Group], recorder: EventRecorder) -> type[Group]:
    members: dict[str, Any] = dict(bound(recorder, kind))
    if kind in (Group, World):
        members.update(fused_operations.bound(kind, members), _exchange_type=RecordedExchange)
        members["moves_rows"] = True  # of classes that are made of it nothing is known
    members["__doc__"] = f"{kind.__name__}, recorded."
    if kind.sync is not Group.sync:  # that of a plain group is a barrier, which records itself
        members["sync"] = bound_sync(recorder, kind)
    if issubclass(kind, World):
        members["_group_type"] = recorded(kind._group_type)
    if kind is World:  # its kernels need no Python
        members["native_kernel_calls"] = property(_native_kernel_calls)
    return type(f"Recorded{kind.__name__}", (Recorded, kind), members)
