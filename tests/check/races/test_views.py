"""Arrays that note their uses: which bytes each kind of use reads and writes, and that results are NumPy's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.check.races.views import CheckedArray, byte_offsets, wrap


class Uses:
    """Notes which bytes of one block are read and written.

    Args:
        block: The memory that is looked at.
    """

    approach = None

    def __init__(self, block: np.ndarray[Any, Any]) -> None:
        self.first = block.__array_interface__["data"][0]
        self.size = block.nbytes
        self.read: set[int] = set()
        self.written: set[int] = set()

    def is_shared(self, array: np.ndarray[Any, Any]) -> bool:
        return bool(0 <= array.__array_interface__["data"][0] - self.first < self.size)

    def used(self, operation: str, array: np.ndarray[Any, Any], *, writes: bool) -> None:
        assert operation == ("store" if writes else "load")
        self.used_elements(operation, array, byte_offsets(array), writes=writes)

    def used_elements(
        self,
        operation: str,
        array: np.ndarray[Any, Any],
        offsets: np.ndarray[Any, Any],
        *,
        writes: bool,
    ) -> None:
        if not self.is_shared(array):
            return
        start = array.__array_interface__["data"][0] - self.first
        found = self.written if writes else self.read
        for offset in offsets.reshape(-1).tolist():
            found.update(range(start + offset, start + offset + array.itemsize))


@pytest.fixture
def block() -> tuple[CheckedArray, Uses]:
    memory = np.arange(24, dtype=np.float32).reshape(4, 6)
    uses = Uses(memory)
    return wrap(memory, uses), uses


def elements(*places: tuple[int, int]) -> set[int]:
    """Return the bytes of elements (row, column)."""
    return {4 * (6 * row + column) + byte for row, column in places for byte in range(4)}


ALL = {(row, column) for row in range(4) for column in range(6)}
ROW_1 = {(1, column) for column in range(6)}


@pytest.mark.parametrize(
    ("use", "read", "written"),
    [
        (lambda x: x[1, 2], {(1, 2)}, set()),
        (lambda x: x[1], set(), set()),  # a view reads nothing yet
        (lambda x: x[1].sum(), ROW_1, set()),
        (lambda x: float(x[1, 2:3].max()), {(1, 2)}, set()),
        (lambda x: x[1] + 1, ROW_1, set()),
        (lambda x: np.add(1, x[1]), ROW_1, set()),
        (lambda x: x[..., 0].copy(), {(r, 0) for r in range(4)}, set()),
        (lambda x: x.T[0].tolist(), {(r, 0) for r in range(4)}, set()),
        (lambda x: x.reshape(24)[3], {(0, 3)}, set()),
        (lambda x: np.ravel(x)[3], {(0, 3)}, set()),
        (lambda x: np.split(x, 2)[1][0, 0], {(2, 0)}, set()),
        (lambda x: list(x[:, 0]), {(r, 0) for r in range(4)}, set()),
        (lambda x: x[[0, 2], [1, 3]], {(0, 1), (2, 3)}, set()),
        (lambda x: x[x > 22], ALL, set()),
        (lambda x: x[np.eye(4, 6, dtype=bool)], {(i, i) for i in range(4)}, set()),
        (lambda x: np.concatenate([x[0], x[3]]), {(r, c) for r in (0, 3) for c in range(6)}, set()),
        (lambda x: np.where(x[1] > 0, x[1], 0), ROW_1, set()),
        (lambda x: x[1].astype(np.int32), ROW_1, set()),
        (lambda x: repr(x[1]), ROW_1, set()),
        (lambda x: x[1] @ np.ones(6, np.float32), ROW_1, set()),
        (lambda x: x[1].argmax(), ROW_1, set()),
        (lambda x: 3.0 in x[1], ROW_1, set()),
        (lambda x: copy.deepcopy(x[1]), ROW_1, set()),
        (lambda x: pickle.dumps(x[1]), ROW_1, set()),
        (lambda x: bool(x[1, 2:3]), {(1, 2)}, set()),
        (lambda x: np.array_equal(x[1], x[1]), ROW_1, set()),
        (lambda x: np.sort(x[1]), ROW_1, set()),
        (lambda x: x[1].mean(), ROW_1, set()),
        (lambda x: np.testing.assert_array_equal(x[1], x[1]), ROW_1, set()),
        (lambda x: x.__setitem__((1, 2), 5), set(), {(1, 2)}),
        (lambda x: x.__setitem__(1, 5), set(), ROW_1),
        (lambda x: x[1].__setitem__(slice(None), 5), set(), ROW_1),
        (lambda x: x.__setitem__(([0, 2], [1, 3]), 5), set(), {(0, 1), (2, 3)}),
        (lambda x: x.__setitem__(0, x[1]), ROW_1, {(0, c) for c in range(6)}),
        (lambda x: x[1].fill(0), set(), ROW_1),
        (lambda x: np.copyto(x[1], 1), set(), ROW_1),
        (lambda x: np.add(x[1], 1, out=x[1]), ROW_1, ROW_1),
        (lambda x: np.negative(x[1], out=x[1], where=x[1] > 8), ROW_1, {(1, c) for c in (3, 4, 5)}),
        (lambda x: np.add.at(x, ([0, 0], [1, 1]), 1), {(0, 1)}, {(0, 1)}),
        (lambda x: x[1].sort(), set(), ROW_1),
        (lambda x: np.sum(x[1], out=x[2, :1].reshape(())), ROW_1, {(2, 0)}),
        (lambda x: np.clip(x[1], 0, 1, out=x[1]), ROW_1, ROW_1),
        (lambda x: np.put(x, [1, 2], 0), set(), {(0, 1), (0, 2)}),
        (lambda x: np.putmask(x, np.arange(24).reshape(4, 6) == 7, 0), set(), {(1, 1)}),
        (lambda x: np.place(x, np.arange(24).reshape(4, 6) == 7, [0]), set(), {(1, 1)}),
        (lambda x: np.copyto(x, x[1], where=np.eye(4, 6) > 0), ROW_1, {(i, i) for i in range(4)}),
        (lambda x: np.fill_diagonal(x, 0), set(), {(i, i) for i in range(4)}),
        (lambda x: np.matmul(x, np.ones((6, 6), np.float32), out=x), ALL, ALL),
    ],
)
def test_what_a_use_reads_and_writes(
    block: tuple[CheckedArray, Uses],
    use: Callable[[Any], Any],
    read: set[tuple[int, int]],
    written: set[tuple[int, int]],
) -> None:
    checked, uses = block
    plain = checked.view(np.ndarray).copy()
    result, wanted = use(checked), use(plain)
    assert uses.read == elements(*read)
    assert uses.written == elements(*written)
    np.testing.assert_array_equal(checked.view(np.ndarray), plain)
    if isinstance(wanted, np.ndarray | np.generic | float | list):
        np.testing.assert_array_equal(np.asarray(result), np.asarray(wanted))


def test_what_is_computed_is_an_ordinary_array(block: tuple[CheckedArray, Uses]) -> None:
    checked, _ = block
    for value in (
        checked + 1,
        checked.copy(),
        np.exp(checked),
        checked[[0]],
        checked.astype(int),
        np.stack([checked, checked]),
        checked.sum(axis=0),
        checked * checked,
    ):
        assert type(value) is np.ndarray
    for part in (
        checked[1],
        checked.T,
        checked.reshape(24),
        np.swapaxes(checked, 0, 1),
        checked[:, 1],
    ):
        assert type(part) is CheckedArray


def test_in_place_operators_stay_in_place(block: tuple[CheckedArray, Uses]) -> None:
    checked, uses = block
    same = checked
    checked += 1
    assert checked is same
    assert uses.written == elements(*ALL)
    assert checked.view(np.ndarray)[0, 0] == 1


KEYS = st.one_of(
    st.integers(-4, 3),
    st.slices(4),
    st.tuples(st.integers(-4, 3), st.slices(6)),
    st.tuples(st.slices(4), st.integers(-6, 5)),
    st.tuples(st.lists(st.integers(-4, 3), min_size=1, max_size=5)),
    st.tuples(st.slices(4), st.lists(st.integers(0, 5), min_size=1, max_size=3)),
    st.lists(st.booleans(), min_size=4, max_size=4).map(np.array),
    st.just(Ellipsis),
    st.tuples(st.just(None), st.slices(4)),
)


@settings(max_examples=200, deadline=None)
@given(KEYS, st.booleans())
def test_items_are_the_bytes_that_change(key: Any, writes: bool) -> None:
    memory = np.arange(24, dtype=np.float32).reshape(4, 6)
    uses = Uses(memory)
    checked = wrap(memory, uses)
    touched = np.zeros((4, 6), bool)
    touched[key] = True
    wanted = elements(*zip(*np.nonzero(touched), strict=True))  # type: ignore[arg-type]
    if writes:
        checked[key] = -1
        assert (uses.read, uses.written) == (set(), wanted)
    else:
        found = checked[key]
        np.testing.assert_array_equal(found, memory[key])
        if type(found) is CheckedArray:
            found = found.copy()
        assert (uses.read, uses.written) == (wanted, set())
