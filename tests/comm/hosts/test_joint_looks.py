"""What hosts have seen of their PEs is joined into one look; only two looks alike, with nothing under way, prove a deadlock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from emu.comm.deadlock.report import Deadlock
from emu.comm.hosts.places import Places
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.process import joint_looks
from emu.comm.process.joint_looks import JointLooks
from emu.comm.watchdog.over_hosts import JoinedLook, nothing_is_under_way

PLACES = Places((2, 2), 0, ("a", "b"))
HOSTS = [range(2), range(2, 4)]
LOCK = (0, 64, 4)


@pytest.fixture(scope="module")
def segment() -> Iterator[Segment]:
    """The memory of a World of four PEs, in which nothing has happened."""
    found = Segment.create(Layout(n_pes=4, heap_bytes=1 << 16))
    yield found
    found.close()


def wait(pe: int, *others: int, is_all: bool = False, evidence: str = "") -> dict[str, Any]:
    """Return the wait of a PE for a word that others may write, or for them all."""
    runs = {"call": "wait_until", "runs": [[0, 8 * pe, 8, "EQ", 5, 1]], "needed": 1}
    own = [list(others), is_all]
    return _wait(pe, runs, own, evidence)


def barrier(pe: int, generation: int = 3) -> dict[str, Any]:
    """Return the wait of a PE in the World's barrier."""
    description = {"call": "barrier", "group": "world", "index": 0, "generation": generation}
    return _wait(pe, description, None, "")


def lock(pe: int, *members: int) -> dict[str, Any]:
    """Return the wait of a PE for a lock."""
    description = {
        "call": "set_lock(mine)",
        "runs": [[*LOCK, "LT", 9, 1]],
        "needed": 1,
    }
    return _wait(pe, description, [list(members), False], "")


def _wait(pe: int, description: dict[str, Any], own: Any, evidence: str) -> dict[str, Any]:
    return {
        "pe": pe,
        "description": description,
        "evidence": evidence,
        "own": own,
        "servers": [],
        "gap": 0.0,
    }


def answer(*waits: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return what a host answers."""
    found: dict[str, Any] = {"ended": [], "waits": list(waits), "barriers": [], "holders": []}
    counts = {"sent": [0, 0], "handled": [0, 0], "posted": [0, 0], "idle": True}
    return found | counts | fields


def stuck(segment: Segment, *answers: dict[str, Any], locks: tuple[Any, ...] = ()) -> set[int]:
    return set(JoinedLook(segment, HOSTS, answers, locks).stuck())


def test_pes_of_two_hosts_that_wait_for_each_other_are_stuck(segment: Segment) -> None:
    both = answer(wait(0, 3), ended=[1]), answer(wait(3, 0), ended=[2])
    assert stuck(segment, *both) == {0, 3}


def test_a_pe_that_another_one_may_release_is_not_stuck(segment: Segment) -> None:
    assert not stuck(segment, answer(wait(0, 2, 3)), answer(wait(3, 0)))  # 2 computes
    assert stuck(segment, answer(wait(0, 2, 3)), answer(wait(3, 0), ended=[2])) == {0, 3}


def test_a_barrier_is_lacking_those_whom_no_host_has_counted(segment: Segment) -> None:
    """A host counts its own members one by one, those of another when all of them have come."""
    here = answer(barrier(0), wait(1, 2, 3), barriers=[[0, 3, 3]])
    there = answer(barrier(2), barrier(3), barriers=[[0, 3, 2]])
    assert stuck(segment, here, there) == {0, 1, 2, 3}
    look = JoinedLook(segment, HOSTS, (here, there), ())
    need = look.barrier_need(look.waits[0])
    assert need is not None
    assert need.pes == (1,)


@pytest.mark.parametrize(
    ("generation", "here", "there"),
    [(3, 2, 2), (3, 3, 3), (4, 3, 2), (3, 4, 2)],
)
def test_a_host_that_has_counted_otherwise_has_somebody_on_the_way(
    generation: int, here: int, there: int, segment: Segment
) -> None:
    one = answer(barrier(0), wait(1, 2, 3), barriers=[[0, generation, here]])
    other = answer(barrier(2), barrier(3), barriers=[[0, 3, there]])
    assert not stuck(segment, one, other)


def test_only_its_holder_releases_a_lock_once_hosts_have_said_who_it_is(segment: Segment) -> None:
    here, there = answer(wait(0, 3)), answer(lock(3, 0, 1, 2))
    assert not stuck(segment, here, there)  # 1 and 2 compute, and may hold it
    look = JoinedLook(segment, HOSTS, (here, there), ())
    assert look.locks == (LOCK,)
    held = answer(wait(0, 3), holders=[[*LOCK, 0]])
    assert stuck(segment, held, there, locks=(LOCK,)) == {0, 3}
    assert not stuck(segment, here, there, locks=(LOCK,))  # it is being handed over


@pytest.mark.parametrize(
    ("sent", "handled", "idle", "is_none"),
    [(5, 5, True, True), (5, 4, True, False), (4, 5, True, False), (5, 5, False, False)],
)
def test_a_record_that_was_not_handled_is_under_way(
    sent: int, handled: int, idle: bool, is_none: bool
) -> None:
    one = answer(sent=[0, sent], handled=[0, 2])
    other = answer(sent=[2, 0], handled=[handled, 0], idle=idle)
    assert nothing_is_under_way([one, other]) is is_none


class _Agent:
    """Takes the orders of a launcher."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []

    def order(self, call: str, **fields: Any) -> None:
        self.orders.append({"call": call, **fields})


class _Home:
    """The first host's part, asked again and again."""

    def __init__(self, segment: Segment) -> None:
        self.agent = _Agent()
        self.looks = JointLooks(segment, PLACES, self.agent, 60.0, lambda: "")  # type: ignore[arg-type]
        self.looks.note_waits()

    def ask(self) -> dict[str, Any]:
        self.looks.look()
        return self.agent.orders[-1]

    def take(self, number: int, *answers: dict[str, Any]) -> Deadlock | None:
        found = None
        for host, each in enumerate(answers):
            found = self.looks.take(host, {"number": number, "seen": each})
        return found


@pytest.fixture
def home(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> _Home:
    monkeypatch.setattr(joint_looks, "_SAY_S", 0.0)
    return _Home(segment)


def both(sent: int = 0, evidence: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    one = answer(wait(0, 3, evidence=evidence), ended=[1], sent=[0, sent])
    return one, answer(wait(3, 0), ended=[2], handled=[sent, 0])


TOLD = {"places": [[1, "x.py:3"]], "likely": [[0, [3]]], "causes": [], "states": "  PE 0 waits"}


def test_two_looks_alike_are_a_proof_and_a_third_question_fetches_the_report(home: _Home) -> None:
    assert home.take(home.ask()["number"], *both()) is None
    second = home.ask()
    assert not second["is_last"]
    assert home.take(second["number"], *both()) is None
    last = home.agent.orders[-1]
    assert last["is_last"]
    assert last["number"] == second["number"] + 1
    found = home.take(last["number"], TOLD, TOLD | {"places": [[2, "x.py:3"]]})
    assert found is not None
    assert found.is_proved
    assert found.cycle == (0, 3)
    assert "cycle: PE 0 (wait_until" in str(found)


@pytest.mark.parametrize("change", [{"sent": 1}, {"evidence": "another wait"}])
def test_looks_that_differ_prove_nothing(change: dict[str, Any], home: _Home) -> None:
    home.take(home.ask()["number"], *both())
    home.take(home.ask()["number"], *both(**change))
    assert not home.agent.orders[-1]["is_last"]
    home.take(home.ask()["number"], *both(**change))
    assert home.agent.orders[-1]["is_last"]


def test_a_record_under_way_takes_the_suspicion_back(home: _Home) -> None:
    home.take(home.ask()["number"], *both())
    one, other = both()
    home.take(home.ask()["number"], one | {"sent": [0, 1]}, other)
    home.looks.note_waits()
    home.take(home.ask()["number"], *both())
    assert not home.agent.orders[-1]["is_last"]


def test_answers_to_an_earlier_question_count_for_nothing(home: _Home) -> None:
    number = home.ask()["number"]
    assert home.take(number - 1, *both()) is None
    assert home.ask()["number"] == number  # its answers are still awaited
