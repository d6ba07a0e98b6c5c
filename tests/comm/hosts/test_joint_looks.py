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
from emu.comm.watchdog.over_hosts import JoinedLook

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
    counts = {"sent": [0] * 4, "handled": [0] * 4, "posted": [], "pending": []}
    return found | counts | fields


def stuck(segment: Segment, *answers: dict[str, Any], locks: tuple[Any, ...] = ()) -> set[int]:
    look = JoinedLook(segment, HOSTS, answers, locks)
    return set(look.stuck(look.settled()))


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


def counts(**by_pe: int) -> list[int]:
    """Return the records of each PE: ``counts(pe3=5)``."""
    return [by_pe.get(f"pe{pe}", 0) for pe in range(4)]


@pytest.mark.parametrize(
    ("sent", "handled", "pending", "is_settled"),
    [(5, 5, [], True), (5, 4, [], False), (5, 6, [], False), (5, 5, [3], False)],
)
@pytest.mark.parametrize("pe", [0, 1, 3])
def test_who_has_a_record_under_way_may_release_whom_it_could(
    pe: int, sent: int, handled: int, pending: list[int], is_settled: bool, segment: Segment
) -> None:
    """PEs 0 and 3 wait for each other or for PE 1, which has ended."""
    own = {f"pe{pe}": sent}
    one = answer(wait(0, 1, 3), ended=[1], sent=counts(**own))
    done = counts(**{f"pe{pe}": handled})
    other = answer(wait(3, 0, 1), handled=done, pending=[pe for _ in pending])
    found = JoinedLook(segment, HOSTS, (one, other), ()).settled()
    assert (pe in found) is is_settled
    assert stuck(segment, one, other) == ({0, 3} if is_settled else set())


def test_records_of_others_under_way_keep_nobody_from_being_stuck(segment: Segment) -> None:
    one = answer(wait(0, 3), wait(1, 2), sent=counts(pe1=7, pe2=2))
    other = answer(wait(2, 1), wait(3, 0), sent=counts(pe2=4), pending=[2])
    assert stuck(segment, one, other) == {0, 3}
    quiet = answer(wait(2, 1), wait(3, 0), sent=counts(), handled=counts(pe1=7, pe2=2))
    assert stuck(segment, one, quiet) == {0, 1, 2, 3}


def test_all_hosts_count_the_records_of_a_pe(segment: Segment) -> None:
    """PE 0's host has sent two requests, the other has handled both, and sent two answers, of which one is on its way."""
    one = answer(wait(0, 3), sent=counts(pe0=2), handled=counts(pe0=1))
    other = answer(wait(3, 0), ended=[2], sent=counts(pe0=2), handled=counts(pe0=2))
    assert not stuck(segment, one, other)
    one["handled"] = counts(pe0=2)
    assert stuck(segment, one, other) == {0, 3}


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


def both(sent: int = 0, evidence: str = "", **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what both hosts answer of PEs 0 and 3, which wait for each other, while 1 and 2 have ended."""
    one = answer(wait(0, 3, evidence=evidence), ended=[1], sent=counts(pe0=sent), **fields)
    return one, answer(wait(3, 0), ended=[2], handled=counts(pe0=sent))


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


@pytest.mark.parametrize(
    "change", [{"sent": 1}, {"evidence": "another wait"}, {"posted": [[0, 1], [1, 0]]}]
)
def test_looks_that_differ_prove_nothing(change: dict[str, Any], home: _Home) -> None:
    home.take(home.ask()["number"], *both())
    home.take(home.ask()["number"], *both(**change))
    assert not home.agent.orders[-1]["is_last"]
    home.take(home.ask()["number"], *both(**change))
    assert home.agent.orders[-1]["is_last"]


def test_a_record_under_way_takes_the_suspicion_back(home: _Home) -> None:
    home.take(home.ask()["number"], *both())
    one, other = both()
    home.take(home.ask()["number"], one | {"sent": counts(pe0=1)}, other)
    home.looks.note_waits()
    home.take(home.ask()["number"], *both())
    assert not home.agent.orders[-1]["is_last"]


def with_traffic(turn: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return answers in which PEs 0 and 3 wait for each other, while 1 and 2 send messages to and fro, and wait for them."""
    one = answer(wait(0, 3), wait(1, 2, evidence=f"{turn}"), sent=counts(pe1=turn + turn % 2))
    other = answer(wait(2, 1, evidence=f"{turn}"), wait(3, 0), handled=counts(pe1=turn))
    return one, other


def test_a_deadlock_of_some_is_proved_while_others_send_messages(home: _Home) -> None:
    for turn in range(2):
        assert home.take(home.ask()["number"], *with_traffic(turn)) is None
    last = home.agent.orders[-1]
    assert last["is_last"]
    found = home.take(last["number"], TOLD, TOLD)
    assert found is not None
    assert [each.pe for each in found.waiting] == [0, 3]


def test_messages_of_those_who_could_release_somebody_take_the_suspicion_back(home: _Home) -> None:
    """PE 1 has ended with a signal on its way, which may be for PE 0: it is handled between the looks."""
    for handled in (0, 1):
        one = answer(wait(0, 1, 3), ended=[1], sent=counts(pe1=1))
        other = answer(wait(3, 0), ended=[2], handled=counts(pe1=handled))
        home.looks.note_waits()
        home.take(home.ask()["number"], one, other)
        assert not home.agent.orders[-1]["is_last"]
    home.take(home.ask()["number"], one, other)
    assert home.agent.orders[-1]["is_last"]  # it was not, and nothing is left


def test_a_wait_that_begins_between_the_looks_proves_nothing(home: _Home) -> None:
    first = answer(wait(0, 3)), answer(ended=[2])
    home.looks.note_waits()
    home.take(home.ask()["number"], *first)
    home.looks.note_waits()
    home.take(home.ask()["number"], answer(wait(0, 3), ended=[1]), answer(wait(3, 0), ended=[2]))
    assert not home.agent.orders[-1]["is_last"]


def test_answers_to_an_earlier_question_count_for_nothing(home: _Home) -> None:
    number = home.ask()["number"]
    assert home.take(number - 1, *both()) is None
    assert home.ask()["number"] == number  # its answers are still awaited
