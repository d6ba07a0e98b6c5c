"""Groups whose operations are told to a :class:`~emu.comm.world.listening.Listener`.

Every public operation does what that of :class:`~emu.comm.world.group.Group` does, checks of arguments included, and
tells the listener. Atomic operations and signals are done by the listener itself, so that what a PE sees and what it may
know by that cannot be told apart. A put is told when it was done: it is the program that orders accesses, not time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from emu.comm.arrays import Array
from emu.comm.check_options import Checks
from emu.comm.memory.segment import Segment
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.sync import signal_numbers
from emu.comm.world import recording, transfer
from emu.comm.world.array import Input, Output, SymmetricArray, symmetric
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.comm.world.linked import LinkedGroup
from emu.comm.world.listened_array import silent, tile_of
from emu.comm.world.listened_meetings import ListenedMeetings
from emu.comm.world.listening import Tile, load_room
from emu.comm.world.listening import Word as ListenedWord
from emu.comm.world.locking import place_of
from emu.comm.world.nonblocking import check_output, result_of
from emu.comm.world.waiting import UNFIT, Word, encode, word_operation
from emu.comm.world.world import World

# Names that the fast paths look up on every call.
_ndarray, _SET, _ADD = np.ndarray, AtomicOp.SET, AtomicOp.ADD
_WORD_BYTES = 8


class ListenedGroup(ListenedMeetings):
    """A group whose listener is told of each operation."""

    _linked = False
    """Are the members connected by emulated links? Then :meth:`_delay` sleeps for one latency to a PE."""

    _is_direct = True
    """Are stores done by the listener, where it can? Else all go through :meth:`_store`."""

    def _delay(self, world_pe: int) -> None:
        raise NotImplementedError("a group without links delays nothing")

    # --- put and get -----------------------------------------------------------------------

    def put(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store as :meth:`Group.put` does."""
        # The conditions of Group.put's own fast path, for which the listener has one.
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
                and dst.nbytes > _WORD_BYTES
                and self._is_direct
                and (op is _SET or op is _ADD)
            ):
                world_pe = self.members[pe]
                dtype = None if op is _SET else (dst.kind, dst.itemsize, dst.dtype.kind)
                if self.listener.put_dense(world_pe, dst.offset, src, dtype, dst.nbytes):
                    self.report_recovery(dst, world_pe)
                return
        except UNFIT:
            pass
        self._put("put", dst, src, pe, offsets, op, nonblocking=False)

    def _put(
        self,
        operation: str,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        offsets: Sequence[int] | None,
        op: AtomicOp,
        *,
        nonblocking: bool,
    ) -> None:
        adds = check.choice("op", op, AtomicOp) is AtomicOp.ADD
        target, source = self._target(dst, src, pe, offsets)
        if not adds and source.size == 1 and dst.word:
            bits = int(source.reshape(-1).view(f"i{dst.itemsize}")[0])
            word = ListenedWord(target.pe, target.offset, dst.itemsize)
            self.listener.stored_word(operation, word, bits, source, nonblocking=nonblocking)
            if self._linked:
                self._delay(target.pe)
            return
        self._store(dst, source, target, adds)
        self.listener.stored(operation, target, source, adds=adds, nonblocking=nonblocking)

    def _store(self, dst: SymmetricArray, source: Array, target: Tile, adds: bool) -> None:
        transfer.store(self, dst, source, (target.pe, target.offset), adds)

    def _target(
        self, dst: SymmetricArray, src: Input, pe: int, offsets: Sequence[int] | None
    ) -> tuple[Tile, Array]:
        """Return where a put goes, and what it stores, after all checks of :meth:`Group.put`."""
        world_pe = self.route(dst, pe, "dst")
        source = transfer.as_source(silent(src), dst.dtype)
        offset = transfer.window(dst, offsets, source.shape)
        return tile_of(dst, world_pe, offset, source.shape), source

    def get(
        self,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Output | None = None,
    ) -> Array:
        """Fetch as :meth:`Group.get` does."""
        try:
            if (
                offsets is None
                and shape is None
                and out is None
                and src.dense
                and src.group is self
                and 0 <= pe < self.n_pes
                and not src.root.freed
                and src.nbytes
                and not self._linked
            ):
                tile: Array = np.empty(src.shape, src.dtype)
                self.listener.get_dense(self.members[pe], src.offset, tile, src.nbytes)
                return tile
        except UNFIT:
            pass
        return self._get("get", src, pe, offsets, shape, out, nonblocking=False)

    def _get(
        self,
        operation: str,
        src: SymmetricArray,
        pe: int,
        offsets: Sequence[int] | None,
        shape: Sequence[int] | None,
        out: Output | None,
        *,
        nonblocking: bool,
    ) -> Array:
        result = super().get(src, pe, offsets=offsets, shape=shape, out=silent(out))
        start = offsets if offsets is not None else (0,) * src.ndim
        offset = transfer.window(src, start, result.shape, "shape", "src")
        tile = tile_of(src, self.members[pe], offset, result.shape)
        self.listener.fetched(operation, tile, result, nonblocking=nonblocking)
        return result

    def put_signal(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store and signal as :meth:`Group.put_signal` does."""
        self._put_signal(
            "put_signal", (dst, src, pe, offsets, op), (signal, value, index, sig_op), False
        )

    def _put_signal(
        self,
        operation: str,
        data: tuple[SymmetricArray, Input, int, Sequence[int] | None, AtomicOp],
        of_signal: tuple[SymmetricArray, int, int, AtomicOp],
        nonblocking: bool,
    ) -> None:
        dst, src, pe, offsets, op = data
        signal, value, index, sig_op = of_signal
        word = ListenedWord(*self._word(signal, pe, index))
        bits, code = encode(signal.dtype, value), word_operation("sig_op", sig_op)
        adds = check.choice("op", op, AtomicOp) is AtomicOp.ADD
        target, source = self._target(dst, src, pe, offsets)
        self._store(dst, source, target, adds)
        self.listener.put_signal(
            operation, target, source, (word, code, bits), adds=adds, nonblocking=nonblocking
        )

    # --- non-blocking forms ----------------------------------------------------------------

    def put_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a put as :meth:`Group.put_nbi` does."""
        self._put("put_nbi", dst, src, pe, offsets, op, nonblocking=True)

    def get_nbi(
        self,
        src: SymmetricArray,
        pe: int,
        out: Output,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        """Start a get as :meth:`Group.get_nbi` does."""
        check_output(out)
        self._get("get_nbi", src, pe, offsets, shape, out, nonblocking=True)

    def put_signal_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a put_signal as :meth:`Group.put_signal_nbi` does."""
        self._put_signal(
            "put_signal_nbi", (dst, src, pe, offsets, op), (signal, value, index, sig_op), True
        )

    def _start(
        self,
        out: Output,
        out_index: int,
        target: SymmetricArray,
        pe: int,
        index: int,
        operation: int,
        value: int,
        expected: int = 0,
    ) -> None:
        results, place = result_of(silent(out), out_index, symmetric("target", target).dtype)
        word = ListenedWord(*self._word(target, pe, index, "target"))
        bits = encode(target.dtype, value)
        wanted = encode(target.dtype, expected, "expected")
        if self._linked:
            self._delay(word.pe)
        name = ("fetch_nbi", "", "fetch_add_nbi", "swap_nbi", "compare_swap_nbi")[operation]
        old = self.listener.start_atomic(name, word, operation, bits, wanted)
        signed = old >= 0 or target.dtype.kind == "i"
        results.flat[place] = old if signed else old + (1 << 8 * word.size)
        element: tuple[Any, ...] = (*np.unravel_index(place, results.shape), ...)
        self.listener.got(name, results[element])

    # --- atomics and signals ---------------------------------------------------------------

    def _fetching(
        self,
        operation: str,
        array: SymmetricArray,
        pe: int,
        index: int,
        code: int,
        operands: tuple[int, int],
    ) -> int:
        word = ListenedWord(*self._word(array, pe, index, "target"))
        value = encode(array.dtype, operands[0])
        expected = encode(array.dtype, operands[1], "expected")
        if self._linked:
            self._delay(word.pe)
        old = self.listener.atomic(operation, word, code, value, expected, fetches=True)
        if self._linked:
            self._delay(word.pe)
        return old if old >= 0 or array.dtype.kind == "i" else old + (1 << 8 * word.size)

    def fetch_add(self, target: SymmetricArray, value: int, pe: int, *, index: int = 0) -> int:
        """Add as :meth:`Group.fetch_add` does."""
        return self._fetching("fetch_add", target, pe, index, signal_numbers.ADD, (value, 0))

    def swap(self, target: SymmetricArray, value: int, pe: int, *, index: int = 0) -> int:
        """Replace as :meth:`Group.swap` does."""
        return self._fetching("swap", target, pe, index, signal_numbers.SWAP, (value, 0))

    def compare_swap(
        self, target: SymmetricArray, expected: int, value: int, pe: int, *, index: int = 0
    ) -> int:
        """Replace as :meth:`Group.compare_swap` does."""
        return self._fetching(
            "compare_swap", target, pe, index, signal_numbers.CAS, (value, expected)
        )

    def fetch(self, target: SymmetricArray, pe: int, *, index: int = 0) -> int:
        """Read as :meth:`Group.fetch` does."""
        return self._fetching("fetch", target, pe, index, signal_numbers.FETCH, (0, 0))

    def signal_op(
        self,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = AtomicOp.SET,
        index: int = 0,
    ) -> None:
        """Signal as :meth:`Group.signal_op` does."""
        try:
            if (
                type(value) is int
                and type(index) is int
                and signal.group is self
                and 0 <= pe < self.n_pes
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal.root.freed
                and not self._linked
                and (op is _SET or op is _ADD)
            ):
                size = signal.itemsize
                self.listener.signal(
                    self.members[pe], signal.offset + index * size, size, op is _ADD, value
                )
                return
        except UNFIT:
            pass
        code = word_operation("op", op)
        word = ListenedWord(*self._word(signal, pe, index))
        bits = encode(signal.dtype, value)
        if self._linked:
            self._delay(word.pe)
        self.listener.atomic("signal_op", word, code, bits, 0, fetches=False)

    # --- waits -----------------------------------------------------------------------------

    def _note_waited(self, operation: str, words: Iterable[Word]) -> None:
        rows = []
        for signal, index, cmp, value in words:
            _, size, comparison, wanted = self._row(signal, index, cmp, value)
            word = ListenedWord(self.members[self.my_pe], signal.element_offset(index), size)
            rows.append((word, comparison, wanted))
        self.listener.waited(operation, rows)

    def wait_until(self, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> int:
        """Wait as :meth:`Group.wait_until` does."""
        seen = super().wait_until(signal, cmp, value, index=index)
        self._note_waited("wait_until", [(signal, index, cmp, value)])
        return seen

    def wait_for(
        self, words: Sequence[Word], describe: str = "wait_for", *, needed: int = 1
    ) -> list[int]:
        """Wait as :meth:`Group.wait_for` does."""
        words = self._words(words)
        held = super().wait_for(words, describe, needed=needed)
        self._note_waited(describe, [words[i] for i in held])
        return held

    def test(self, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> bool:
        """Test as :meth:`Group.test` does."""
        held = super().test(signal, cmp, value, index=index)
        if held:
            self._note_waited("test", [(signal, index, cmp, value)])
        return held

    def test_all(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> bool:
        """Test as :meth:`Group.test_all` does."""
        words = self._vector(signals_, cmp, values, indices)
        picked = [index for _, index, _, _ in words]
        held = super().test_all(signals_, cmp, [word[3] for word in words], indices=picked)
        if held:
            self._note_waited("test_all", words)
        return held

    def test_some(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Test as :meth:`Group.test_some` does."""
        words = self._vector(signals_, cmp, values, indices)
        picked = [index for _, index, _, _ in words]
        found = super().test_some(signals_, cmp, [word[3] for word in words], indices=picked)
        held = set(found)
        self._note_waited("test_some", [word for word in words if word[1] in held])
        return found

    # --- locks -----------------------------------------------------------------------------

    def _lock_word(self, lock: SymmetricArray, index: int) -> ListenedWord:
        home = lock.group.members[0]
        return ListenedWord(home, lock.element_offset(index), lock.itemsize)

    def set_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Take a lock as :meth:`Group.set_lock` does."""
        super().set_lock(lock, index=index)
        self.listener.locked(self._lock_word(lock, index))

    def test_lock(self, lock: SymmetricArray, *, index: int = 0) -> bool:
        """Take a lock as :meth:`Group.test_lock` does."""
        taken = super().test_lock(lock, index=index)
        if taken:
            self.listener.locked(self._lock_word(lock, index))
        return taken

    def clear_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Release a lock as :meth:`Group.clear_lock` does."""
        if place_of(*self._lock(lock, index)):  # else it raises, and nothing is released
            self.listener.unlocks(self._lock_word(lock, index))
        super().clear_lock(lock, index=index)


class LinkedListenedGroup(ListenedGroup, LinkedGroup):
    """A listened group whose members are connected by emulated links."""

    _linked = True
    _is_direct = False

    def _delay(self, world_pe: int) -> None:
        self._pass_latency(world_pe)

    def _store(self, dst: SymmetricArray, source: Array, target: Tile, adds: bool) -> None:
        begun = time.monotonic_ns()
        super()._store(dst, source, target, adds)
        self._carry(self._here, target.pe, source.nbytes, begun)


class ListenedWorld(ListenedGroup, World):
    """The group of all PEs, with a listener."""

    _group_type = ListenedGroup

    def group(self, name: str, pes: Sequence[int] | None = None) -> Group:
        """Make or find a group as :meth:`World.group` does."""
        found = super().group(name, pes)
        assert isinstance(found, ListenedGroup)
        found.listener = self.listener
        return found

    def finish(self) -> None:
        """Run the callbacks of :meth:`on_finish`, and tell the listener."""
        super().finish()
        self.listener.finish()


class LinkedListenedWorld(LinkedListenedGroup, ListenedWorld):
    """The group of all PEs, with a listener and emulated links."""

    _group_type = LinkedListenedGroup


def make_listened_world(
    segment: Segment,
    me: int,
    pe: int,
    *,
    poison: bool,
    checks: Checks,
    is_recorded: bool = False,
) -> World:
    """Make the World of a PE, as :func:`emu.comm.world.making.make_world` does, with a listener."""
    kind = ListenedWorld if segment.link is None else LinkedListenedWorld
    world = recording.class_of(kind, is_recorded)(segment, me, pe, poison=poison)
    world.listener = load_room().listen(segment, me, pe, checks, between=int(is_recorded))
    return world
