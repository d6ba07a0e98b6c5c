"""Comparison of 16-bit results."""

from __future__ import annotations

import numpy as np
import pytest

from emu import mc2
from emu.comm.errors import ArgumentError


def test_the_comparison_of_the_field():
    expected = np.linspace(-50, 50, 1000)
    assert mc2.matches(expected, expected)
    assert mc2.matches(expected * 1.0049, expected)
    assert not mc2.matches(expected * 1.006, expected)
    few = expected.copy()
    few[:5] += 1
    found = mc2.compare(few, expected)
    assert found
    assert (found.total, found.wrong, found.where) == (1000, 5, (4,))
    assert found.largest == pytest.approx(1 / max(abs(few[4]), abs(expected[4])))
    few[5] += 1
    assert not mc2.compare(few, expected)
    assert "6 of 1000 elements are wrong; the worst, 0.0202, is at (5,)" in str(
        mc2.compare(few, expected)
    )
    assert mc2.matches(np.full(9, 0.0049), np.zeros(9))
    assert not mc2.matches(np.full(9, 0.0051), np.zeros(9))
    assert mc2.matches(np.zeros((0, 4)), np.zeros((0, 4)))


def test_the_comparison_of_what_is_not_finite():
    special = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert mc2.compare(special, special).wrong == 0
    for i in range(4):
        for j in range(4):
            if i != j:
                found = mc2.compare(special[i : i + 1], special[j : j + 1])
                assert not found
                assert found.largest == np.inf


def test_comparisons_that_cannot_be_are_refused():
    for arguments, keywords, pattern in (
        (
            (np.ones(2), np.ones(3)),
            {},
            r"x must have shape \(3,\), that of expected, but got \(2,\)",
        ),
        ((1, 1), {"tolerance": 0}, r"tolerance must be positive, but got 0"),
        ((1, 1), {"share": 1.5}, r"share must be in \[0, 1\], but got 1.5"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            mc2.compare(*arguments, **keywords)
