"""``UncheckedListener``: a :class:`~emu.comm.world.listening.Listener` of a world that is steered and not checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.comm.arrays import Array
from emu.comm.sync import entry_points, signal_numbers
from emu.comm.world.listening import Tile, Word
from emu.comm.world.membership import Membership
from emu.comm.world.steering import Span, Steering


class UncheckedListener:
    """Does what a listener must do, through what steers the PE, and notes nothing.

    Args:
        me: Address of the PE's block.
        steering: What steers it.
    """

    finds_races = False

    tasks = None
    """Nobody wants to know of tasks."""

    def __init__(self, me: int, steering: Steering) -> None:
        self._me = me
        self._steering = steering

    def stored(
        self, operation: str, target: Tile, source: Array, *, adds: bool, nonblocking: bool
    ) -> None:
        """Do nothing."""

    def put_dense(
        self,
        world_pe: int,
        offset: int,
        source: Array,
        dtype: tuple[int, int, str] | None,
        nbytes: int,
    ) -> bool:
        """Do a put of dense memory; return whether a dead PE's lock was recovered."""
        if dtype is None:
            entry_points.put_dense(self._me, world_pe, offset, id(source), nbytes)
            return False
        kind, size, _ = dtype
        return bool(
            entry_points.add_dense(self._me, world_pe, offset, id(source), kind, size, nbytes)
        )

    def get_dense(self, world_pe: int, offset: int, target: Array, nbytes: int) -> None:
        """Do a get of dense memory."""
        entry_points.get_dense(self._me, world_pe, offset, id(target), nbytes)

    def fetched(self, operation: str, source: Tile, target: Array, *, nonblocking: bool) -> None:
        """Do nothing."""

    def stored_word(
        self, operation: str, word: Word, value: int, source: Array, *, nonblocking: bool
    ) -> None:
        """Do a put of one integer, now or later."""
        data = np.array(source, order="C")

        def store() -> None:
            entry_points.put_short(self._me, word.pe, word.offset, id(data), word.size)

        self._steering.send(operation, _span(word), store)

    def put_signal(
        self,
        operation: str,
        target: Tile,
        source: Array,
        signal: tuple[Word, int, int],
        *,
        adds: bool,
        nonblocking: bool,
    ) -> None:
        """Do the signal, together with its put."""
        word, code, value = signal

        def store() -> None:
            self._atomic(word, code, value, 0)

        self._steering.send(operation, _span(word), store, joins=target.pe == word.pe)

    def atomic(
        self, operation: str, word: Word, code: int, value: int, expected: int, *, fetches: bool
    ) -> int:
        """Do an atomic operation: now if it fetches, else perhaps later."""
        if fetches:
            self._steering.settle(word.pe)
            return self._atomic(word, code, value, expected)
        self._steering.send(
            operation, _span(word), lambda: _done(self._atomic(word, code, value, expected))
        )
        return 0

    def start_atomic(self, operation: str, word: Word, code: int, value: int, expected: int) -> int:
        """Do an atomic operation, and return the old value."""
        self._steering.settle(word.pe)
        return self._atomic(word, code, value, expected)

    def got(self, operation: str, target: Array) -> None:
        """Do nothing."""

    def signal(self, world_pe: int, offset: int, size: int, adds: bool, value: int) -> None:
        """Do a SET or an ADD of a word, now or later."""
        code = signal_numbers.ADD if adds else signal_numbers.SET
        self.atomic("signal_op", Word(world_pe, offset, size), code, value, 0, fetches=False)

    def _atomic(self, word: Word, code: int, value: int, expected: int) -> int:
        return int(
            entry_points.atomic(self._me, word.pe, word.offset, word.size, code, value, expected)
        )

    def waited(self, operation: str, words: list[tuple[Word, int, int]]) -> None:
        """Do nothing."""

    def fence(self) -> None:
        """Do nothing."""

    def quiet(self) -> None:
        """Do nothing."""

    def enter(
        self, operation: str, group: Membership, inputs: list[Array], *, completes: bool = False
    ) -> int:
        """Do nothing."""
        return 0

    def leave(
        self,
        operation: str,
        group: Membership,
        entered: int,
        members: Sequence[int],
        outputs: list[Array],
    ) -> None:
        """Do nothing."""

    def locked(self, word: Word) -> None:
        """Do nothing."""

    def unlocks(self, word: Word) -> None:
        """Do nothing."""

    def allocated(self) -> None:
        """Do nothing."""

    def frees(self, offset: int, nbytes: int) -> None:
        """Do nothing."""

    def view(self, array: Array) -> Array:
        """Return the array as it is."""
        return array

    def used(self, operation: str, array: Array, *, writes: bool) -> None:
        """Do nothing."""

    def used_spans(
        self,
        operation: str,
        spans: Array,
        *,
        writes: bool,
        atomic: tuple[str, int] | None = None,
    ) -> None:
        """Do nothing."""

    def begins_unseen_order(self) -> None:
        """Do nothing."""

    def ends_unseen_order(self) -> None:
        """Do nothing."""

    def open_scope(self, tile: Tile, *, writes: bool) -> int:
        """Do nothing."""
        return 0

    def close_scope(self, scope: int, tile: Tile, *, writes: bool) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


def _span(word: Word) -> Span:
    return Span(word.pe, word.offset, word.offset + word.size, True)


def _done(_: int) -> None:
    """Forget an old value."""
