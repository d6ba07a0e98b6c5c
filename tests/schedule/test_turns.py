"""PEs that take turns do the same again, also when one runs for long."""

from __future__ import annotations

from functools import partial

import pytest
from schedule_programs import locks, meets, passes_on, takes_long

from emu.comm.errors import ArgumentError
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.session import Session
from emu.comm.schedule_options import Schedule, Switch
from emu.schedule.running import Program


@pytest.mark.parametrize("strategy", ["first", "random", "pct", "delay", "starve"])
def test_a_schedule_gives_the_same_order_each_time(strategy: str) -> None:
    program = Program(partial(passes_on, fenced=True), 3)
    schedule = Schedule(strategy=strategy, seed=11)
    first, second = program.run(schedule), program.run(schedule)
    assert first.error is None
    assert [s.signature for s in first.trace.steps] == [s.signature for s in second.trace.steps]
    assert not first.trace.freed
    assert not any(step.is_stalled for step in first.trace.steps)


def test_switches_repeat_an_order() -> None:
    program = Program(meets, 3)
    drawn = program.run(Schedule(strategy="random", seed=5))
    assert drawn.error is None
    assert drawn.results is not None
    assert [r[0] for r in drawn.results] == [6, 6, 6]
    repeated = program.run(drawn.repeating)
    assert repeated.trace.actors == drawn.trace.actors
    assert repeated.trace.switches == drawn.trace.switches


def test_the_first_order_has_no_switches() -> None:
    outcome = Program(locks, 3).run(Schedule())
    assert outcome.results == [3, 3, 3]
    assert outcome.trace.switches == ()


def test_others_go_on_without_a_pe_that_computes() -> None:
    outcome = Program(takes_long, 2).run(Schedule())
    assert outcome.error is None
    assert any(step.is_stalled for step in outcome.trace.steps)


def test_switches_that_fit_nothing_are_passed_over() -> None:
    outcome = Program(locks, 2).run(Schedule(switches=(Switch(7, 99, 1), Switch(0, 1, 1))))
    assert outcome.results == [2, 2]


def test_pes_that_stay_take_no_turns() -> None:
    with pytest.raises(ArgumentError, match="schedule must be None"):
        Session(locks, 2, options=LaunchOptions(schedule=Schedule()))
