"""Every order of small programs has exactly the outcomes that trying every order on a model has."""

from __future__ import annotations

import pytest
from schedule_definition import Outcome, Program, all_outcomes, random_program, run_on_pe

from emu.schedule.exhaustive import every_order
from emu.schedule.running import Program as Launch


def outcomes(program: Program, *, late: bool) -> set[Outcome]:
    """Return the outcomes of all runs that are not left out."""
    found: set[Outcome] = set()
    launch = Launch(run_on_pe, len(program), (program,))
    for outcome in every_order(launch.run, len(program), late=late):
        assert outcome.error is None, outcome.summary
        assert not outcome.trace.freed
        parts = outcome.results
        assert parts is not None
        found.add((tuple(tuple(r) for r, _ in parts), tuple(parts[0][1])))
    return found


SMALL: tuple[Program, ...] = (
    ((("put", 0, 1),), (("get", 0),)),
    ((("add", 0, 1),), (("fetch_add", 0, 2),)),
)
LARGER: tuple[Program, ...] = (
    ((("put", 0, 1), ("put", 1, 2)), (("get", 1), ("get", 0))),
    ((("put", 0, 1), ("fence",), ("put", 1, 2)), (("get", 1), ("get", 0))),
    ((("put", 0, 1), ("quiet",), ("put", 1, 2)), (("get", 1), ("get", 0))),
    ((("add", 0, 1), ("get", 0)), (("fetch_add", 0, 2),)),
)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("program", SMALL)
def test_outcomes_are_those_of_the_definition(program: Program, *, late: bool) -> None:
    assert outcomes(program, late=late) == all_outcomes(program, late=late)


@pytest.mark.slow
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("program", LARGER)
def test_outcomes_of_larger_programs(program: Program, *, late: bool) -> None:
    assert outcomes(program, late=late) == all_outcomes(program, late=late)


def test_a_fence_takes_outcomes_away() -> None:
    reader = (("get", 1), ("get", 0))
    loose = all_outcomes(((("put", 0, 1), ("put", 1, 2)), reader))
    ordered = all_outcomes(((("put", 0, 1), ("fence",), ("put", 1, 2)), reader))
    assert ordered < loose


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_outcomes_of_random_programs(seed: int) -> None:
    program = random_program(seed, 2, 2)
    assert outcomes(program, late=True) == all_outcomes(program)


@pytest.mark.slow
def test_three_pes() -> None:
    program = ((("put", 0, 1),), (("fetch_add", 0, 2),), (("get", 0),))
    assert outcomes(program, late=True) == all_outcomes(program)
