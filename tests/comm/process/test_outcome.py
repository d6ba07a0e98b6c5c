"""What a PE raises or returns arrives at the launcher, or the error says why it cannot."""

from __future__ import annotations

import asyncio

import pytest

import emu
from emu.comm.errors import (
    PEExitError,
    PERaisedError,
)


class Leave(SystemExit):
    pass


class Bare(BaseException):
    pass


class NeedsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class HasALambda(Exception):
    def __init__(self) -> None:
        super().__init__("with a lambda")
        self.function = lambda: 0


class NoText(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


class Closed(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class ComesBackAsText(Exception):
    def __reduce__(self) -> tuple[type, tuple[str]]:
        return str, ("no exception at all",)


RAISED = {
    "keyboard": KeyboardInterrupt("me"),
    "generator": GeneratorExit(),
    "cancelled": asyncio.CancelledError("task"),
    "bare": Bare("hello"),
    "base group": BaseExceptionGroup("several", [KeyboardInterrupt("inner")]),
    "needs two": NeedsTwo(4, 2),
    "lambda": HasALambda(),
    "no text": NoText(),
    "closed": Closed("shut"),
    "as text": ComesBackAsText("odd"),
    "huge": ValueError("x" * (3 << 20)),
}


def raise_one(name: str) -> None:
    world = emu.world()
    if world.my_pe == 1:
        raise RAISED[name]
    world.barrier()


def raise_known(kind: str) -> None:
    if kind == "group":
        raise ExceptionGroup("several", [ValueError("one"), ExceptionGroup("deep", [KeyError(2)])])
    if kind == "surrogate":
        raise ValueError("a\udc80b")
    if kind == "long":
        raise ValueError("x" * 500_000)
    raise emu.DeadlockError("of my own")


def leave_as(code: object) -> None:
    raise Leave(code)


def return_what_interrupts() -> object:
    return Interrupts()


class Interrupts:
    def __reduce__(self) -> str:
        raise KeyboardInterrupt("while it was pickled")


@pytest.mark.parametrize("name", RAISED)
def test_what_no_group_could_hold_is_told(name: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_one, 2, args=(name,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PERaisedError)
    assert error.pe == 1
    kind = type(RAISED[name]).__name__
    assert error.raised.endswith(kind)
    assert str(error).startswith("PE 1 raised ")
    assert kind in str(error)
    if name not in ("no text", "generator", "huge"):
        assert str(RAISED[name]) in str(error)
    note = "\n".join(error.__notes__)
    assert "in raise_one" in note
    assert len(str(error)) + len(note) < 100_000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("group", ExceptionGroup), ("surrogate", ValueError), ("long", ValueError)],
)
def test_what_can_be_sent_arrives_as_it_is(kind: str, expected: type[Exception]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_known, 1, args=(kind,))
    assert [type(e) for e in caught.value.exceptions] == [expected]


def test_a_stopped_error_of_the_programs_own_is_a_cause() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raise_known, 2, args=("stopped",))
    assert any(str(e) == "of my own" for e in caught.value.exceptions)


def test_subclasses_of_system_exit() -> None:
    assert emu.launch(leave_as, 1, args=(0,)) == [None]
    for code, status in ((7, 7), ("said", 1), (NoText(), 1)):
        with pytest.raises(ExceptionGroup) as caught:
            emu.launch(leave_as, 1, args=(code,))
        (error,) = caught.value.exceptions
        assert isinstance(error, PEExitError)
        assert error.code == status


def test_a_result_whose_pickling_interrupts() -> None:
    with pytest.raises(ExceptionGroup, match="1 of 1 PEs failed") as caught:
        emu.launch(return_what_interrupts, 1)
    assert "must be picklable, but is not: KeyboardInterrupt: while it was" in str(
        caught.value.exceptions[0]
    )
