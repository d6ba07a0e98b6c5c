"""Waits for signal words in the PE's own memory: ``wait_until`` and ``test``, one word or many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.memory.stop import check_stopped
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.sync import signal_numbers, signals
from emu.comm.sync.entry_points import end_sleep, test_word, wait_word
from emu.comm.world import details
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import WORDS, SymmetricArray, symmetric
from emu.comm.world.checks import check
from emu.comm.world.membership import publish_wait
from emu.kernels.core.messages import shown

Word = tuple[SymmetricArray, int, Cmp, int]
"""Condition of a wait: array, flat index of its element, comparison, value."""


_INT_RANGE = {
    d: (-(1 << 8 * d.itemsize - 1), (1 << 8 * d.itemsize - 1) - 1)
    if d.kind == "i"
    else (0, (1 << 8 * d.itemsize) - 1)
    for d in WORDS
}
_BIAS = 1 << 63
# Errors that a fast path may meet with wrong arguments; the general path then raises the proper one.
UNFIT = (AttributeError, TypeError, ValueError)


def encode(dtype: np.dtype[np.generic], value: SupportsIndex, name: str = "value") -> int:
    """Check that ``value`` fits ``dtype`` and return its bits as a signed number.

    Raises:
        ArgumentError: It does not fit, or is not an integer.
    """
    number = value if type(value) is int else check.integer(name, value)
    low, high = _INT_RANGE[dtype]
    if not low <= number <= high:
        raise ArgumentError(f"{name} must fit {dtype} [{low}, {high}], but got {shown(number)}")
    half = 1 << 8 * dtype.itemsize - 1
    return number - 2 * half if number >= half else number


def word_operation(name: str, op: AtomicOp) -> int:
    """Return the operation on a word that an argument stands for.

    Raises:
        ArgumentError: It is not an AtomicOp.
    """
    if type(op) is AtomicOp:
        return signal_numbers.SET if op is AtomicOp.SET else signal_numbers.ADD
    return (
        signal_numbers.ADD
        if check.choice(name, op, AtomicOp) is AtomicOp.ADD
        else signal_numbers.SET
    )


class Waiting(Allocation):
    """A group whose members wait for words of their own memory."""

    def _word(
        self, array: SymmetricArray, pe: int, index: int, name: str = "signal"
    ) -> tuple[int, int, int]:
        """Return (world PE, offset, bytes) of an integer word after checking all three."""
        if (
            type(array) is SymmetricArray
            and array.group is self
            and type(pe) is int
            and 0 <= pe < len(self.members)
            and type(index) is int
            and 0 <= index < array.words
            and not array.root.freed
        ):
            return self.members[pe], array.offset + index * array.itemsize, array.itemsize
        if symmetric(name, array).dtype not in WORDS:
            raise ArgumentError(
                f"{name} must be of integers, for atomics and signals need int32, int64, uint32 or "
                f"uint64, but got {array!r}"
            )
        world_pe = self.route(array, pe, name)
        return world_pe, array.element_offset(index), array.itemsize

    def wait_until(self, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> int:
        """Wait until this PE's element ``index`` of ``signal`` compares as asked.

        Args:
            signal: int32, int64, uint32 or uint64.
            cmp: Comparison of the word with ``value``.
            value: What to compare with.
            index: Which element, in C order.

        Returns:
            The value that was seen.

        Raises:
            DeadlockError: Nobody can end the wait, or nothing changed for the launch's time-out.
            PEDiedError, PeerFailedError: Another PE ended.
        """
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
            address = self.mine + signal.offset + index * signal.itemsize
            size, wanted = signal.word, value
            comparison: int = cmp  # an IntEnum will do here
        else:
            address, size, comparison, wanted = self._row(signal, index, cmp, value)
        found, seen = wait_word(self.me, address, size, comparison, wanted, 0)
        if not found:
            where = [(signal, index, cmp, value)]
            seen = self._sleep(
                lambda: wait_word(self.me, address, size, comparison, wanted, 1),
                lambda: describe_wait("wait_until", where, 1),
            )
        if type(seen) is not int:
            seen = int(seen)
        return seen + _BIAS if size == -8 else seen

    def _sleep(self, again: Callable[[], Any], describe: Callable[[], details.Description]) -> int:
        """Go on waiting slice by slice; in between, check whether the world was stopped."""
        try:
            check_stopped(self.segment)
            publish_wait(self, describe())
            published = time.monotonic()
            found, seen = again()
            while not found:
                check_stopped(self.segment)
                if details.has_provider() and time.monotonic() - published >= details.AGAIN_S:
                    publish_wait(self, describe())
                    published = time.monotonic()
                found, seen = again()
            return int(seen)
        except BaseException:
            end_sleep(self.me, 0)
            raise

    def _row(
        self, signal: SymmetricArray, index: int, cmp: Cmp, value: int
    ) -> tuple[int, int, int, int]:
        """Return (address, size, comparison, value) of a word of this PE, as the kernels take it."""
        _, offset, size = self._word(signal, self.my_pe, index)
        address = self.mine + offset
        wanted = encode(signal.dtype, value)
        if signal.dtype.kind == "u":
            # Unsigned words compare as signed ones: 4 bytes widened, 8 bytes less 2**63.
            wanted = int(value) if size == 4 else int(value) - _BIAS
            size = -size
        comparison = cmp if type(cmp) is Cmp else check.choice("cmp", cmp, Cmp)
        return address, size, int(comparison), wanted

    def wait_for(
        self,
        words: Sequence[Word],
        describe: str = "wait_for",
        *,
        needed: int = 1,
    ) -> list[int]:
        """Wait until ``needed`` of the words (array, index, cmp, value) hold simultaneously.

        Returns:
            The positions of those that held.

        Raises:
            ArgumentError: A word is malformed, there is none, or ``needed`` is not in ``[1, len(words)]``.
        """
        words = self._words(words)
        if not words:
            raise ArgumentError("words must not be empty: nothing could ever wake this PE")
        needed = check.integer("needed", needed, 1, len(words))
        check.text("describe", describe)
        matched = np.zeros(len(words), np.int64)
        table = self._table(words)

        def again(resumed: bool) -> tuple[int, int]:
            total = signals.wait_words(self.me, table, needed, matched, resumed)
            return total, total

        if not again(False)[0]:
            self._sleep(lambda: again(True), lambda: describe_wait(describe, words, needed))
        return [int(i) for i in np.flatnonzero(matched)]

    def _words(self, words: Any) -> Sequence[Word]:
        """Return the words of a wait as a list of tuples of four."""
        try:
            listed = [tuple(word) for word in words]
        except TypeError:
            listed = [()]
        if any(len(word) != 4 for word in listed):
            raise ArgumentError(
                f"words must be a list of (array, index, cmp, value), but got {shown(words)}"
            )
        return cast("Sequence[Word]", listed)

    def _table(self, words: Sequence[Word]) -> Array:
        return np.array([self._row(*word) for word in words], np.int64)

    def _vector(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        indices: Iterable[int] | None,
    ) -> list[Word]:
        symmetric("signals_", signals_).check_alive()
        if indices is None:
            picked: Sequence[int] = range(signals_.size)
        else:
            picked = check.integers("indices", indices)
        try:
            wanted: Sequence[int] = [check.integer("values", values)] * len(picked)
        except ArgumentError:
            wanted = check.integers("values", values)
        if len(wanted) != len(picked):
            raise ArgumentError(
                f"values must be one integer or {len(picked)} of them, but got {len(wanted)}"
            )
        return [(signals_, i, cmp, v) for i, v in zip(picked, wanted, strict=True)]

    def wait_until_all(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> None:
        """Wait until all elements (or those at ``indices``) compare as asked; return at once for none.

        ``values`` is one value for all, or one for each.
        """
        words = self._vector(signals_, cmp, values, indices)
        pending = words
        while pending:  # each may hold at its own time: what has held once is done
            held = set(self.wait_for(pending, "wait_until_all"))
            pending = [w for i, w in enumerate(pending) if i not in held]

    def wait_until_any(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> int:
        """Wait until one element compares as asked; return its index. There must be at least one."""
        return self.wait_until_some(signals_, cmp, values, indices=indices)[0]

    def wait_until_some(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Wait until at least one element compares as asked; return the indices of all that do."""
        words = self._vector(signals_, cmp, values, indices)
        return [words[i][1] for i in self.wait_for(words, "wait_until_some")]

    def test(self, signal: SymmetricArray, cmp: Cmp, value: int, *, index: int = 0) -> bool:
        """Return whether :meth:`wait_until` would return at once."""
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
            size = signal.word
            polls = test_word(self.me, self.mine + signal.offset + index * size, size, cmp, value)
            if polls == 0:
                return True
        else:
            address, size, comparison, wanted = self._row(signal, index, cmp, value)
            polls = test_word(self.me, address, size, comparison, wanted)
        return self._polled(polls, [(signal, index, cmp, value)])

    def test_all(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> bool:
        """Return whether all elements compare as asked now."""
        words = self._vector(signals_, cmp, values, indices)
        held = len(self._held(words)) == len(words)
        return self._polled(signals.count_poll(self.me, held), words)

    def test_any(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> int | None:
        """Return the index of one element that compares as asked now, or None."""
        some = self.test_some(signals_, cmp, values, indices=indices)
        return some[0] if some else None

    def test_some(
        self,
        signals_: SymmetricArray,
        cmp: Cmp,
        values: int | Sequence[int],
        *,
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Return the indices of all elements that compare as asked now."""
        words = self._vector(signals_, cmp, values, indices)
        held = [words[i][1] for i in self._held(words)]
        self._polled(signals.count_poll(self.me, bool(held)), words)
        return held

    def _held(self, words: Sequence[Word]) -> list[int]:
        if not words:
            return []
        matched = np.zeros(len(words), np.int64)
        signals.count_held(self._table(words), matched)
        return [int(i) for i in np.flatnonzero(matched)]

    def _polled(self, polls: int, words: Sequence[Word]) -> bool:
        """Publish what this PE waits for if it tests in a loop: that is a wait, too.

        Args:
            polls: Number of tests in a row that have failed.
            words: Words of the last test.

        Returns:
            Whether the test held, which is when ``polls`` is 0.
        """
        if polls and polls % 1024 == 0:
            check_stopped(self.segment)
            publish_wait(self, describe_words("test (in a loop)", words))
        return polls == 0


def describe_words(call: str, words: Sequence[Word]) -> details.Description:
    """Describe the words of a wait in the form that the launcher's report reads."""
    slots = [
        {
            "name": array.label,
            "group": array.group.index,
            "index": int(index),
            "offset": array.element_offset(index),
            "size": WORDS[array.dtype],
            "cmp": Cmp(cmp).name,
            "value": int(value),
        }
        for array, index, cmp, value in words[:8]
    ]
    return {"call": call, "slots": slots, "more": max(0, len(words) - 8)}


_RUNS = 16
"""Runs of words that are published; a wait for more is not looked into."""


def describe_wait(call: str, words: Sequence[Word], needed: int) -> details.Description:
    """Describe a wait that ends when ``needed`` of the words hold, and not before.

    Beside the words as :func:`describe_words` shows them, all of them stand in *runs*: group, offset, bytes,
    comparison, value and number of words that lie one behind the other and are wanted alike.
    """
    runs: list[list[Any]] = []
    for array, index, cmp, value in words:
        size, offset = WORDS[array.dtype], array.element_offset(index)
        row = [array.group.index, offset, size, Cmp(cmp).name, int(value)]
        if runs and row == [runs[-1][0], runs[-1][1] + runs[-1][5] * abs(size), *runs[-1][2:5]]:
            runs[-1][5] += 1
            continue
        if len(runs) == _RUNS:
            return describe_words(call, words)
        runs.append([*row, 1])
    return {**describe_words(call, words), "needed": needed, "runs": runs}
