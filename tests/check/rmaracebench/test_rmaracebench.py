"""The checker's answers to the situations of RMARaceBench 1.2 (Schwitanski and others, SC-W 2023), in programs of our own.

The numbers are those of its folders ``SHMEM/conflict``, ``sync``, ``atomic`` and ``misc``, 100 cases. 94 are here. Left out:

* sync 020, atomic 001: a put or an atomic through one context beside ``quiet`` or an atomic of another one. emu has no contexts. (Where
  a context is only another way to say it, sync 019, atomic 002 and 003, the World or a group stands for it.)
* atomic 006 to 009: atomics of two types on one word. A symmetric array has one dtype, and no two share memory.

The cases of the folder ``hybrid`` use OpenMP threads within a PE; the World is for one thread.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest

import emu
from emu.check import CheckError, Race
from tests.check.rmaracebench import atomic, conflict, misc, sync
from tests.check.rmaracebench.cases import CASES, Case

LEFT_OUT = {"sync": {20}, "atomic": {1, 6, 7, 8, 9}}
NUMBERS = {"conflict": 49, "sync": 24, "atomic": 9, "misc": 18}
SIZES = (1, 5)
"""Elements of the arrays."""


def run_all(names: list[str], n: int) -> None:
    """Run cases one after the other on this PE."""
    world = emu.world()
    for name in names:
        CASES[name].program(world, n)
        world.barrier()


def of(n_pes: int) -> list[str]:
    return [case.name for case in CASES.values() if case.n_pes == n_pes]


@functools.cache
def outcome(n_pes: int, n: int) -> Any:
    """Run all cases of a number of PEs once under the checker; return what it finds, or why they did not end."""
    try:
        emu.launch(run_all, n_pes, args=(of(n_pes), n), checks=emu.Checks(race=True), timeout=20)
    except CheckError as error:
        return error.reports
    except Exception as error:  # noqa: BLE001 - raised again by each test that asks
        return error
    return ()


def reports(n_pes: int, n: int) -> tuple[Any, ...]:
    """Return what the checker finds in all cases of a number of PEs."""
    found = outcome(n_pes, n)
    if isinstance(found, Exception):
        raise found
    return tuple(found)


def pairs(case: Case, n: int) -> set[tuple[int, int]]:
    """Return the pairs of lines that are reported of a case."""
    file, lines = case.place
    found = set()
    for report in reports(case.n_pes, n):
        assert isinstance(report, Race), report.text
        sides = report.first, report.second
        if any(side.file == file and side.line in lines for side in sides):
            first, second = sorted(side.line for side in sides)
            found.add((first, second))
    return found


def test_every_case_is_here() -> None:
    numbers = {
        folder: set(range(1, n + 1)) - LEFT_OUT.get(folder, set()) for folder, n in NUMBERS.items()
    }
    here = Counter((name.split("_")[0], int(name.split("_")[1])) for name in CASES)
    assert here == Counter((folder, n) for folder, all_of in numbers.items() for n in all_of)
    assert {case.program.__module__ for case in CASES.values()} == {
        m.__name__ for m in (conflict, sync, atomic, misc)
    }
    for case in CASES.values():
        assert len(case.lines("A")) == len(case.lines("B")) == case.is_racy, case.name


@pytest.mark.parametrize("n_pes", [2, 3, 4])
def test_the_programs_end_without_checks(n_pes: int) -> None:
    emu.launch(run_all, n_pes, args=(of(n_pes), 3))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_racy])
def test_the_two_lines_of_a_race_are_found(name: str, n: int) -> None:
    case = CASES[name]
    (one,), (other,) = case.lines("A"), case.lines("B")
    found = pairs(case, n)
    assert (min(one, other), max(one, other)) in found
    consequences = {(min(line, other), max(line, other)) for line in case.lines("A also")}
    assert found <= {(min(one, other), max(one, other))} | consequences


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.is_racy])
def test_nothing_is_found_in_a_clean_program(name: str, n: int) -> None:
    assert pairs(CASES[name], n) == set()


def test_no_race_is_found_elsewhere() -> None:
    places = [case.place for case in CASES.values()]
    for n_pes in (2, 3, 4):
        for n in SIZES:
            for report in reports(n_pes, n):
                for side in (report.first, report.second):
                    assert any(side.file == f and side.line in lines for f, lines in places), (
                        report.text
                    )
