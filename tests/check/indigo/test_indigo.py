"""Faults of programs on graphs, as the Indigo suite sorts them, in kernels of our own; each with a twin that is right."""

from __future__ import annotations

import pytest
from grid_race_cases import judge

from tests.check.indigo import lists, updates
from tests.check.indigo.graphs import PATTERNS

MODULES = {lists, updates}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_lines_that_race_are_named(name: str) -> None:
    case = PATTERNS[name][False]
    assert case.races or case.benign
    judge(case)


@pytest.mark.parametrize("name", PATTERNS)
def test_the_twin_that_is_right_is_silent(name: str) -> None:
    case = PATTERNS[name][True]
    assert case.is_clean
    judge(case)


def test_there_are_as_many_patterns_as_were_promised() -> None:
    kernels = [case.launches[0][0] for both in PATTERNS.values() for case in both.values()]
    assert {kernel.fn.__module__ for kernel in kernels} == {module.__name__ for module in MODULES}
    assert len(PATTERNS) >= 20
