"""Failed assertions in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from emu.tile.assertions import Failure, describe, find_failure, plain


@given(arrays.arrays(bool, arrays.array_shapes(min_dims=0, max_dims=3, max_side=5)))
def test_the_first_false_element_is_found(condition: np.ndarray) -> None:
    values = np.arange(condition.size).reshape(condition.shape)
    found = find_failure(condition, ["x", "n"], [values, np.asarray(7)])
    if condition.all():
        assert found is None
        return
    assert found is not None
    assert not condition[found.index]
    assert condition.reshape(-1)[: found.lane].all()
    assert found.count == (~condition).sum()
    assert found.values == {"x": values[found.index], "n": 7}


def test_the_text_says_where_and_what() -> None:
    one = Failure((4, 8), 11, 3, {"x": 5, "n": 2.5})
    assert str(one) == "3 of 32 lanes fail, first lane (1, 3) of (4, 8): x = 5, n = 2.5"
    assert str(Failure((64,), 9)) == "1 of 64 lanes fails, first lane 9 of (64,)"
    assert str(Failure((), 0, 1, {"n": 4})) == "n = 4"
    assert str(Failure()) == ""
    assert (
        describe("no", Failure(), (1, 0, 0), "k", "a.py:3")
        == "no (kernel k, program (1, 0, 0), a.py:3)"
    )
    assert (
        describe("", one, (0, 0, 0), "", "") == f"an assertion failed (program (0, 0, 0))\n  {one}"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.1), 0.1),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.5), 0.5),
        (np.float32("inf"), float("inf")),
    ],
)
def test_numbers_are_shown_as_python_writes_them(value: object, shown: object) -> None:
    found = plain(value)
    assert type(found) is type(shown)
    assert found == shown
