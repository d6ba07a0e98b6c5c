"""The checks of arguments: what they take and what they refuse."""

from __future__ import annotations

import enum
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.core.checks import Arguments, check
from emu.kernels.errors import ArgumentError

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class Colour(enum.IntEnum):
    RED = 0
    BLUE = 1


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise KeyError("no")

    __array__ = __float__ = __iter__


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: check.integer("n", True, 1), 1),
        (lambda: check.integer("n", np.uint8(7), 0, 7), 7),
        (lambda: check.integer("n", np.array(3)), 3),
        (lambda: check.index("n", np.int64(2), 3), 2),
        (lambda: check.integers("n", np.arange(3)), (0, 1, 2)),
        (lambda: check.integers("n", (i for i in (4, 5))), (4, 5)),
        (lambda: check.flag("f", np.bool_(True)), True),
        (lambda: check.flag("f", 0), False),
        (lambda: check.text("t", "é", 2), "é"),
        (lambda: check.choice("c", 0, Colour), Colour.RED),
        (lambda: check.dtype("d", "float32"), np.dtype(np.float32)),
        (lambda: check.number("x", Fraction(1, 2)), 0.5),
        (lambda: check.number("x", ml_dtypes.bfloat16(2)), 2.0),
        (lambda: check.number("x", np.array(3, np.int8)), 3.0),
    ],
)
def test_what_is_taken_comes_back_plain(call: Callable[[], Any], expected: Any) -> None:
    value = call()
    assert value == expected
    assert type(value) in (int, bool, str, float, tuple, Colour, type(np.dtype(np.float32)))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check.integer("n", 2.0), "n must be an integer, but got 2.0"),
        (lambda: check.integer("n", np.bool_(True)), "n must be an integer, but got np.True_"),
        (lambda: check.integer("n", 8, 0, 7), "n must be in [0, 7], but got 8"),
        (lambda: check.integer("n", 0, 1), "n must be at least 1, but got 0"),
        (lambda: check.integer("n", 2, high=1), "n must be at most 1, but got 2"),
        (lambda: check.index("n", -1, 3, " for x"), "n must be in [0, 3) for x, but got -1"),
        (lambda: check.integer("n", 10**5000, 0, 1), "n must be in [0, 1], but got an object of type int"),
        (lambda: check.integers("n", 5), "n must be a sequence of integers, but got 5"),
        (lambda: check.integers("n", b"ab"), "n must be a sequence of integers, but got b'ab'"),
        (lambda: check.integers("n", "ab"), "n[0] must be an integer, but got 'a'"),
        (lambda: check.integers("n", Hostile()), "n must be a sequence of integers, but got an object of type Hostile"),
        (lambda: check.flag("f", 2), "f must be True or False, but got 2"),
        (lambda: check.flag("f", np.zeros(2)), "f must be True or False, but got an array of shape (2,) and dtype float64"),
        (lambda: check.text("t", b"x"), "t must be a string, but got b'x'"),
        (lambda: check.text("t", "é", 1), "t must have at most 1 bytes, but got 2: 'é'"),
        (lambda: check.text("t", "a\0"), "t must have no NUL in it"),
        (lambda: check.text("t", "\udc80"), "t must have no lone surrogates"),
        (lambda: check.choice("c", 2, Colour), "c must be one of Colour's RED, BLUE, but got 2"),
        (lambda: check.dtype("d", "f4,,"), "d must be a NumPy dtype, but got 'f4,,'"),
        (lambda: check.number("x", "1"), "x must be a number, but got '1'"),
        (lambda: check.number("x", 1j), "x must be a number, but got 1j"),
        (lambda: check.number("x", 10**400), "x must be a number, but got 1000"),
        (lambda: check.number("x", Hostile()), "x must be a number, but got an object of type Hostile"),
        (lambda: check.array("a", [[1], [2, 3]]), "a must be an array, but got [[1], [2, 3]]"),
        (lambda: check.array("a", 300, np.dtype(np.int8)), "a must be an array of int8, but got 300"),
        (lambda: check.array("a", Hostile()), "a must be an array, but got an object of type Hostile"),
        (lambda: check.integer("n", 2, 1, 1), "n must be 1, but got 2"),
        (lambda: check.one_of("o", True, (0, 1, 2)), "o must be 0, 1 or 2, but got True"),
        (lambda: check.one_of("o", "a", ("b",)), "o must be 'b', but got 'a'"),
        (lambda: check.matrix("m", [[1]]), "m must be a NumPy array, but got list"),
        (lambda: check.matrix("m", np.zeros(3)), "m must have 2 axes, but got shape (3,)"),
        (lambda: check.matrix("m", np.zeros((2, 2)), HALVES), "m must have one of the dtypes float16, bfloat16, but got float64"),
        (lambda: check.target("out", np.zeros(3), (2,)), "out must have shape (2,), but got (3,)"),
        (lambda: check.target("out", np.zeros(2), (2,), HALVES[0]), "out must have dtype float16, but got float64"),
        (lambda: check.target("out", np.broadcast_to(0, 2), (2,)), "out must be writable, but got a read-only array"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_each_room_has_its_own_error() -> None:
    with pytest.raises(KeyError, match="n must be"):
        Arguments(KeyError).integer("n", "x")


def test_numbers_of_other_libraries_need_no_kind_of_dtype() -> None:
    class Scalar:
        dtype = object()
        shape = ()

        def __float__(self) -> float:
            return 0.5

    class Matrix(Scalar):
        shape = (2, 3)  # type: ignore[assignment]  # of another type on purpose

    assert check.number("x", Scalar()) == 0.5
    with pytest.raises(ArgumentError, match="x must be a number, but got"):
        check.number("x", Matrix())
