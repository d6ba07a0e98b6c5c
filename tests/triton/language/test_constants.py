"""Constexprs compute by Python's rules, and stand for their values."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from language_harness import emit, value

import emu.triton.language as tl

BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
    *(operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
]


@pytest.mark.parametrize("operation", BINARY)
def test_constexprs_compute_as_python_does(operation: Any) -> None:
    wanted = operation(13, 3)
    for a, b in ((tl.constexpr(13), 3), (13, tl.constexpr(3)), (tl.constexpr(13), tl.constexpr(3))):
        got = operation(a, b)
        assert isinstance(got, tl.constexpr)
        assert got.value == wanted
        assert type(got.value) is type(wanted)


def test_constexprs_stand_for_their_values() -> None:
    c = tl.constexpr(tl.constexpr(5))
    assert (c.value, repr(c), str(c), f"{c:03}", hash(c)) == (
        5,
        "constexpr[5]",
        "5",
        "005",
        hash(5),
    )
    assert [1, 2, 3][tl.constexpr(1)] == 2
    assert list(range(c)) == [0, 1, 2, 3, 4]
    assert (-c).value == -5
    assert (~c).value == -6
    assert c.__not__().value is False
    assert c.logical_and(0).value == 0
    assert tl.constexpr(0).logical_or(c).value == 5
    assert not tl.constexpr(0)
    assert tl.constexpr((4, 5))[1] == 5
    assert [*tl.constexpr([1, 2])] == [1, 2]
    assert tl.constexpr(max)(3, 4) == 4
    assert tl.constexpr("ab") + "c" == "abc"
    assert {tl.constexpr(3): "x"}[3] == "x"


def test_a_constexpr_and_a_tensor_give_a_tensor() -> None:
    for operation in BINARY:
        if operation is operator.pow:
            continue
        result, _ = emit(lambda t, o=operation: o(tl.constexpr(3), t), value("int32", (4,)))
        assert isinstance(result, tl.tensor)
        result, _ = emit(lambda t, o=operation: o(t, tl.constexpr(3)), value("int32", (4,)))
        assert isinstance(result, tl.tensor)
