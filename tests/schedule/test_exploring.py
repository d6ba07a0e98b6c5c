"""Programs in many orders: what is wrong in some is found, shortened and repeated; what is right stays silent."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from schedule_programs import answers_at_once, counts, counts_items, locks, meets, passes_on, polls

import emu
from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError, DeadlockError
from emu.schedule import Replay, explore, replay
from emu.schedule.exploring import STRATEGIES


def test_a_missing_fence_is_found_shortened_and_repeated(tmp_path: Path) -> None:
    wrong = partial(passes_on, fenced=False)
    found = explore(wrong, 2, runs=60, seed=1)
    failure = found.failure
    assert failure is not None
    assert failure.nondeterminism is None
    assert failure.switches[1] <= failure.switches[0]
    assert failure.switches[1] <= 2
    assert "AssertionError: 0" in failure.outcome.summary
    table = str(failure)
    assert "put data to PE" in table
    assert f"{Path(passes_on.__code__.co_filename).name}:" in table

    failure.replay.save(tmp_path / "order.json")
    order = Replay.load(tmp_path / "order.json")
    assert order == failure.replay
    for _ in range(2):
        again, difference = replay(order, wrong)
        assert difference is None
        assert again.signature == failure.outcome.signature
        assert again.trace.actors == failure.outcome.trace.actors


@pytest.mark.parametrize(
    "program",
    [partial(passes_on, fenced=True), partial(counts, atomically=True), locks, meets],
    ids=["fenced", "atomic", "locked", "meetings"],
)
def test_right_programs_do_not_fail(program: partial[object]) -> None:
    found = explore(program, 3, runs=12, seed=2)
    assert found.failure is None, str(found)
    assert found.runs == 12
    assert found.orders > 6


def test_every_order_of_a_lost_update() -> None:
    found = explore(partial(counts, atomically=False), 2, runs=100, strategy="all")
    assert found.failure is not None
    assert found.failure.switches[1] == 1
    assert not found.is_complete


def test_every_order_of_an_atomic_update() -> None:
    found = explore(partial(counts, atomically=True), 2, runs=100, strategy="all")
    assert found.failure is None
    assert found.is_complete
    assert found.runs < 40


def test_a_signal_that_overtakes_another_is_found_though_it_is_no_race() -> None:
    wrong = partial(counts_items, fenced=False)
    found = explore(wrong, 2, runs=100, seed=7)
    assert found.failure is not None
    assert emu.launch(wrong, 2, checks=Checks(race=True)) == [None, None]
    assert explore(partial(counts_items, fenced=True), 2, runs=10, seed=7).failure is None


def test_a_deadlock_of_one_order_is_explained() -> None:
    found = explore(answers_at_once, 2, runs=60, seed=3)
    assert found.failure is not None
    error = found.failure.outcome.error
    assert isinstance(error, ExceptionGroup)
    assert any(isinstance(e, DeadlockError) for e in error.exceptions)
    assert "flags" in str(error)


@pytest.mark.parametrize("raw", [False, True])
def test_loops_that_poll_end(*, raw: bool) -> None:
    found = explore(partial(polls, raw=raw), 2, runs=6, seed=4)
    assert found.failure is None, str(found)


def test_checks_listen_in_every_order() -> None:
    found = explore(partial(passes_on, fenced=False), 2, runs=3, seed=5, checks=Checks(race=True))
    assert found.failure is not None
    assert isinstance(found.failure.outcome.error, emu.CheckError)
    assert found.failure.run == 1  # in any order: it was the first


def test_the_strong_model_lets_no_store_arrive_late() -> None:
    found = explore(
        partial(passes_on, fenced=False), 2, runs=15, seed=1, schedule=emu.Schedule(late=False)
    )
    assert found.failure is None


@pytest.mark.parametrize(
    ("named", "value"),
    [("runs", 0), ("runs", 1.5), ("seed", -1), ("seed", "x"), ("strategy", "luck")],
)
def test_wrong_arguments(named: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=named):
        explore(locks, 2, **{named: value})  # type: ignore[arg-type]


def test_a_replay_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(ArgumentError, match="replay must be a file"):
        Replay.load(path)
    path.write_text("{}")
    with pytest.raises(ArgumentError, match="replay must be a file"):
        Replay.load(path)
    with pytest.raises(ArgumentError, match="order must be"):
        replay("order.json", locks)  # type: ignore[arg-type]


def test_all_strategies_run() -> None:
    for strategy in STRATEGIES:
        assert explore(locks, 2, runs=2, strategy=strategy).failure is None
