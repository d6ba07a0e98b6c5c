"""``Faults``: what a plan may say, and what is wrong with one."""

from __future__ import annotations

import re

import pytest

import emu
from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.fault_options import KINDS, OPERATIONS, Fault, Faults
from emu.comm.schedule_options import Schedule
from emu.comm.world.world import World

ONE_OF_EACH = (
    "kill:pe=3,at=op:1200",
    "slow:pe=2,x10",
    "late:from=0,to=1,ms=50",
    "drop-signal:from=0,to=1,nth=3",
    "duplicate-signal:from=0,to=1,nth=4",
    "corrupt:from=0,to=1,nth=2,bit=17",
    "alloc-fail:pe=1,nth=2",
    "enospc:pe=1,nth=3",
)


def test_a_plan_is_read_from_one_text_and_from_several() -> None:
    plan = Faults.parse(" ; ".join(ONE_OF_EACH) + ";")
    assert plan == Faults(ONE_OF_EACH) == Faults([";".join(ONE_OF_EACH)])
    assert [fault.kind for fault in plan.each] == list(KINDS_IN_ORDER)
    assert [str(fault) for fault in plan.each] == list(ONE_OF_EACH)
    assert Faults.parse("").each == ()
    kill, slow, late, drop, _, corrupt, fails, _ = plan.each
    assert (kill.pe, kill.operation, kill.nth) == (3, "op", 1200)
    assert (slow.pe, slow.factor, slow.ms) == (2, 10.0, 0.0)
    assert (late.pe, late.to, late.ms) == (0, 1, 50.0)
    assert (drop.pe, drop.to, drop.nth) == (0, 1, 3)
    assert (corrupt.bit, Fault.parse("corrupt:from=0,to=1,nth=2,seed=5").bit) == (17, None)
    assert (fails.pe, fails.nth) == (1, 2)
    assert Fault.parse("slow:pe=0,ms=2.5").ms == 2.5
    assert Fault.parse("kill : pe = 1 , at = barrier:2").operation == "barrier"
    assert plan.of(1, "alloc-fail", "kill") == [fails]


KINDS_IN_ORDER = (
    *("kill", "slow", "late", "drop-signal", "duplicate-signal"),
    *("corrupt", "alloc-fail", "enospc"),
)


def test_each_kind_has_an_example_here() -> None:
    assert set(KINDS_IN_ORDER) == set(KINDS)


def test_the_operations_are_those_of_a_world() -> None:
    methods = {name for name in dir(World) if not name.startswith("_")}
    assert set(OPERATIONS) - {"free", "post_task", "release_turns", "wait_for_task"} <= methods
    assert hasattr(emu.SymmetricArray, "free")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kil:pe=1,at=op:1", "its kind must be one of kill, slow, .*, but got 'kil'; did you mean"),
        ("", None),
        ("kill", "kill must have pe, at, but got ''"),
        ("kill:pe=1", "kill must have at, but got 'pe=1'"),
        ("kill:pe=1,at=op:0", r"nth must be a whole number in \[1, \d+\], but got '0'"),
        ("kill:pe=1,at=op", "at must be op:N with a number from 1, but got 'op'"),
        ("kill:pe=1,at=putt:1", "at must be op:N, .*, but got 'putt'; did you mean 'put'"),
        ("kill:pe=-1,at=op:1", r"pe must be a whole number in \[0, 1023\], but got '-1'"),
        ("kill:pe=1024,at=op:1", r"pe must be a whole number in \[0, 1023\], but got '1024'"),
        ("kill:pe=1,pe=2,at=op:1", "pe must be given once, but got 'pe=2'"),
        ("kill:pe=1,at=op:1,bit=3", "kill must have the keys pe, at, but got 'bit=3'"),
        ("kill:from=1,at=op:1", "kill must have the keys pe, at, but got 'from=1'"),
        ("slow:pe=1", r"slow must have xFACTOR or ms \(one of them\), but got 'pe=1'"),
        ("slow:pe=1,x2,ms=3", r"slow must have xFACTOR or ms \(one of them\)"),
        ("slow:pe=1,x1", r"xFACTOR must be a number in \(1, 1e\+06\], but got '1'"),
        ("slow:pe=1,xfast", r"xFACTOR must be a number in \(1, 1e\+06\], but got 'fast'"),
        ("slow:pe=1,x=2", "slow must have the keys pe, xFACTOR, ms, but got 'x=2'"),
        ("late:from=0,to=1,ms=nan", r"ms must be a number in \(0, 10000\], but got 'nan'"),
        ("late:from=0,to=1,ms=10001", r"ms must be a number in \(0, 10000\], but got '10001'"),
        ("drop-signal:to=1,nth=1", "drop-signal must have from, but got 'to=1,nth=1'"),
        ("drop-signal:from=0,too=1,nth=1", "but got 'too=1'"),
        ("corrupt:from=0,to=1,nth=1,bit=1,seed=2", "seed must not be given with bit"),
        ("corrupt:from=0,to=1,nth=٣", "nth must be a whole number"),
    ],
)
def test_a_wrong_fault_is_named_with_its_value_and_the_bound(text: str, said: str | None) -> None:
    if said is None:
        assert Faults.parse(text).each == ()
        return
    with pytest.raises(ArgumentError, match=said) as caught:
        Faults.parse(text)
    assert str(caught.value).startswith(f"fault {text!r}: ")


@pytest.mark.parametrize(
    "text",
    [
        "kill:pe=1,at=op:1;kill:pe=1,at=put:2",
        "slow:pe=1,x2;slow:pe=1,ms=3",
        "late:from=0,to=1,ms=1;late:from=0,to=1,ms=2",
        "drop-signal:from=0,to=1,nth=1;duplicate-signal:from=0,to=1,nth=1",
        "corrupt:from=0,to=1,nth=1,bit=1;corrupt:from=0,to=1,nth=1,bit=1",
        "alloc-fail:pe=0,nth=1;enospc:pe=0,nth=1",
        "alloc-fail:pe=0,nth=1;alloc-fail:pe=0,nth=1",
    ],
)
def test_faults_that_contradict_each_other_are_refused(text: str) -> None:
    first, second = text.split(";")
    said = f"fault '{second}': it must not contradict another one, but there is '{first}'"
    with pytest.raises(ArgumentError, match=re.escape(said)):
        Faults.parse(text)
    for alone in (first, second):
        Faults.parse(alone)


@pytest.mark.parametrize("value", [3, None, ("kill:pe=1,at=op:1", 3), {"kill": 1}, b"kill"])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="faults must be a text, or a sequence of texts"):
        Faults(value)  # type: ignore[arg-type]  # what is tested
    if not isinstance(value, str):
        with pytest.raises(ArgumentError, match="fault must be a string, but got"):
            Faults.parse(value)  # type: ignore[arg-type]  # what is tested


def number() -> int:
    return emu.world().my_pe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill:pe=2,at=op:1", r"pe must be a PE in \[0, 2\), one of the launch's, but got 2"),
        ("late:from=5,to=1,ms=1", r"from must be a PE in \[0, 2\), one of the launch's, but got 5"),
        ("corrupt:from=1,to=2,nth=1", r"to must be a PE in \[0, 2\), one of the launch's, but got"),
    ],
)
def test_a_pe_outside_of_the_world_is_refused(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match=said):
        emu.launch(number, 2, faults=emu.Faults(text))
    monkeypatch.setenv("EMU_FAULT", text)
    with pytest.raises(ArgumentError, match=said):
        emu.launch(number, 2)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"schedule": Schedule()}, "a schedule"),
        ({"checks": Checks(race=True)}, "the checks race"),
        ({"link": emu.Link(bandwidth=1e9)}, "a link"),
    ],
)
def test_late_stores_are_said_in_one_way(options: dict[str, object], what: str) -> None:
    late = emu.Faults("late:from=0,to=1,ms=5")
    with pytest.raises(ArgumentError, match=f"late must not be given with {what}, which says"):
        emu.launch(number, 2, faults=late, **options)  # type: ignore[arg-type]  # by name
    assert emu.launch(number, 2, faults=emu.Faults("slow:pe=0,x2"), **options) == [0, 1]  # type: ignore[arg-type]


def test_faults_must_be_faults() -> None:
    with pytest.raises(ArgumentError, match=r"faults must be an emu\.Faults or None, but got 'k'"):
        emu.LaunchOptions(faults="k")  # type: ignore[arg-type]  # what is tested


def test_the_environment_is_read_at_a_launch_and_not_by_pes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMU_FAULT", "kill:pe=0,at=nothing:1")
    with pytest.raises(ArgumentError, match="at must be op:N"):
        emu.launch(number, 2)
    assert emu.launch(number, 2, faults=Faults()) == [0, 1]
    monkeypatch.setenv("EMU_FAULT", "")
    assert emu.launch(number, 2) == [0, 1]
