"""Kernels with a label: which pairs of their lines race, by letters in comments.

A line that ends with ``# a`` is one side of the pair ``a``, with ``# a b`` of two pairs. A letter on two lines names the
pair of these; a letter on one line names two programs (or lanes) that meet there. A case says which letters the check
must report, so that one kernel can be racy with some constants and clean with others.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from emu.triton.errors import GridRaceError

Pairs = set[frozenset[int]]
_MARK = re.compile(r"#((?: [a-z])+)$")


@dataclass(frozen=True)
class Case:
    """One or several launches with a label.

    Attributes:
        name: What the case is about.
        launches: Kernels with their constants, launched one after the other with the same arguments.
        arguments: Makes the arguments.
        grid: Extents of the grid.
        races: Letters of the pairs of programs that race.
        lanes: Letters of the pairs of lanes of one program that race.
        benign: Letters of the pairs of programs that store the same bits.
        helpers: Functions that the kernels call and whose lines are marked.
        missed: Why the check cannot give the right answer; empty if it can.
    """

    name: str
    launches: tuple[tuple[Any, dict[str, Any]], ...]
    arguments: Callable[[], tuple[Any, ...]]
    grid: tuple[int, ...]
    races: str = ""
    lanes: str = ""
    benign: str = ""
    helpers: tuple[Any, ...] = ()
    missed: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing may be reported, not even stores of the same bits."""
        return not (self.races or self.lanes or self.benign)

    def pairs(self, letters: str) -> Pairs:
        """Return the pairs of lines that letters name."""
        lines: dict[str, set[int]] = {}
        for function in (*(kernel for kernel, _ in self.launches), *self.helpers):
            source, first = inspect.getsourcelines(function.fn)
            for number, text in enumerate(source, first):
                marked = _MARK.search(text.rstrip())
                for letter in marked[1].split() if marked else ():
                    lines.setdefault(letter, set()).add(number)
        for letter in letters:
            assert 1 <= len(lines.get(letter, ())) <= 2, (self.name, letter)
        return {frozenset(lines[letter]) for letter in letters}


@dataclass
class Found:
    """What a check reports of a case, as pairs of lines.

    Attributes:
        races: Pairs of programs.
        lanes: Pairs of lanes of one program.
        benign: Pairs of programs that store the same bits.
        reports: The reports.
        arguments: The arguments as the launches left them.
    """

    races: Pairs = field(default_factory=set)
    lanes: Pairs = field(default_factory=set)
    benign: Pairs = field(default_factory=set)
    reports: list[Any] = field(default_factory=list)
    arguments: tuple[Any, ...] = ()


def run(case: Case, check: str | bool, **options: Any) -> Found:
    """Launch the kernels of a case, and return what the check finds in them.

    Args:
        case: The case.
        check: The checks, or False.
        options: More options of the launches.
    """
    found = Found(arguments=case.arguments())
    for kernel, constants in case.launches:
        try:
            kernel[case.grid](*found.arguments, check=check, **constants, **options)
        except GridRaceError as error:
            for race in error.races:
                found.reports.append(race)
                pair = frozenset((race.line, race.other_line))
                kinds = found.lanes if race.kind == "lanes" else found.races
                (found.benign if race.is_benign else kinds).add(pair)
    return found


def judge(case: Case, **options: Any) -> None:
    """Assert that the check reports the pairs that a case names, in the right kernel and argument, and no others."""
    found = run(case, "race:all", **options)
    told = "\n\n".join(race.text for race in found.reports)
    assert found.races == case.pairs(case.races), told
    assert found.lanes == case.pairs(case.lanes), told
    assert found.benign == case.pairs(case.benign), told
    functions = [kernel for kernel, _ in case.launches]
    for race in found.reports:
        assert race.kernel in {kernel.__name__ for kernel in functions}
        assert race.argument in {None, *(n for kernel in functions for n in kernel.arg_names)}
        assert (race.program == race.other_program) == (race.kind == "lanes"), race.text
    quiet = run(case, "race", **options)
    assert bool(quiet.reports) == bool(case.races or case.lanes)
    if case.is_clean:  # the check changes no result
        unchecked = run(case, False, num_threads=1, **options)
        for checked in (found, quiet):
            assert_same(checked.arguments, unchecked.arguments)


def assert_same(one: Sequence[Any], other: Sequence[Any]) -> None:
    """Assert that two launches have left the same in memory."""
    for a, b in zip(one, other, strict=True):
        a, b = getattr(a, "base", a), getattr(b, "base", b)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b)


def as_parameters(cases: Iterable[Case]) -> list[Any]:
    """Return cases as parameters of a test; those that the check cannot answer rightly must fail."""
    return [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=case.missed)
            if case.missed
            else (),
        )
        for case in cases
    ]


def words(*sizes: int, dtype: Any = np.int32) -> Callable[[], tuple[Any, ...]]:
    """Return what makes arrays of zeros."""
    return lambda: tuple(np.zeros(size, dtype) for size in sizes)
