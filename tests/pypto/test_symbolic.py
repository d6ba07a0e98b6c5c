"""Symbolic scalars."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.pypto as p
from emu.pypto.symbolic import lies_in, overlaps

# --- symbolic scalars -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(a=st.integers(-50, 50), b=st.integers(-50, 50).filter(bool))
def test_symbolic_scalars_are_integers(a, b):
    s = p.SymbolicScalar(a)
    results = [s + b, s - b, s * b, s // b, s % b, b + s, b - s, b * s, -s, abs(s), +s]
    expected = [a + b, a - b, a * b, a // b, a % b, b + a, b - a, b * a, -a, abs(a), a]
    assert results == expected
    assert all(isinstance(r, p.SymbolicScalar) for r in results)
    assert (s < b, s == b, s >= b) == (a < b, a == b, a >= b)
    assert (s.min(b), s.max(b)) == (min(a, b), max(a, b))
    assert (s * b) / b == a
    if a:
        assert b // s == b // a
        assert b % s == b % a
        assert (s * b) / s == b
    if a % b:
        with pytest.raises(p.ArgumentError, match="use //"):
            s / b


def test_a_symbolic_scalar_times_a_tensor_is_a_tensor():
    t = p.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    for product in (p.SymbolicScalar(2) * t, t * p.SymbolicScalar(2)):
        assert isinstance(product, p.tensor([1], p.DT_INT32).__class__)
        assert (product.numpy() == t.numpy() * 2).all()
    assert (p.SymbolicScalar(2) * np.arange(3) == [0, 2, 4]).all()
    assert [None] * p.SymbolicScalar(2) == p.SymbolicScalar(2) * [None] == [None, None]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: p.SymbolicScalar(6) * 0.5,
            r"combined with an int or a SymbolicScalar, but got 6 \* 0.5",
        ),
        (lambda: "x" - p.SymbolicScalar(6), "but got 'x' - 6"),
        (
            lambda: p.SymbolicScalar(6) // 0,
            "divisor of a symbolic scalar must not be 0, but got 6 // 0",
        ),
        (
            lambda: 6 % p.SymbolicScalar(0),
            "divisor of a symbolic scalar must not be 0, but got 6 % 0",
        ),
    ],
)
def test_symbolic_scalars_refuse(call, message):
    with pytest.raises(p.ArgumentError, match=message):
        call()


def test_rectangles_overlap_and_lie_in_each_other_as_sets_of_elements_do():
    lows, extents = (
        list(itertools.product(range(3), repeat=2)),
        list(itertools.product(range(1, 3), repeat=2)),
    )
    rectangles = list(itertools.product(lows, extents))

    def elements(low, extent):
        return set(itertools.product(*[range(a, a + n) for a, n in zip(low, extent, strict=True)]))

    for one, other in itertools.product(rectangles, rectangles):
        mine, theirs = elements(*one), elements(*other)
        assert overlaps(*one, *other) == bool(mine & theirs)
        assert lies_in(*one, *other) == (mine <= theirs)
