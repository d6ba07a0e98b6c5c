"""Worlds that no launch has made take their options from the environment."""

from __future__ import annotations

import math

import pytest

from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.comm.process.invitation import Gathering
from emu.comm.process.unlaunched import Unlaunched

NAMES = ("EMU_LINK", "EMU_TIMEOUT", "EMU_CHECK", "EMU_FAULT", "EMU_POISON", "EMU_TRACED")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_without_variables_they_are_those_of_a_launch() -> None:
    assert Unlaunched.from_environment() == Unlaunched(60.0, None)


@pytest.mark.parametrize(("text", "seconds"), [("2.5", 2.5), ("inf", math.inf), ("", 60.0)])
def test_the_time_out_is_read(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_TIMEOUT", text)
    assert Unlaunched.from_environment().timeout == seconds


def test_the_link_is_that_of_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_LINK", "2GB/s,3us")
    assert Unlaunched.from_environment().link == Link(bandwidth=2e9, latency=3e-6)
    gathering = Gathering(2)
    try:
        assert gathering._segment.link == Link(bandwidth=2e9, latency=3e-6)
    finally:
        gathering.close()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("EMU_LINK", "fast", "EMU_LINK: bandwidth must be a number with a unit"),
        ("EMU_LINK", "2GB/s,-1us", "EMU_LINK: latency must be in"),
        ("EMU_TIMEOUT", "soon", "EMU_TIMEOUT must be a positive number of seconds, or inf, but"),
        (
            "EMU_TIMEOUT",
            "0",
            "EMU_TIMEOUT must be a positive number of seconds, or inf, but got '0'",
        ),
        ("EMU_TIMEOUT", "nan", "EMU_TIMEOUT must be a positive number"),
        ("EMU_CHECK", "all of it", "check must be made of"),
    ],
)
def test_variables_that_break_a_rule_are_named(
    name: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ArgumentError) as caught:
        Unlaunched.from_environment()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("EMU_CHECK", "race,bounds", "EMU_CHECK=race: not between PEs"),
        ("EMU_CHECK", "all", "EMU_CHECK=race, EMU_CHECK=leak: not between PEs"),
        ("EMU_FAULT", "late:pe=0", "EMU_FAULT=late:pe=0: not between PEs"),
        ("EMU_TRACED", "1", "a trace does not show PEs that were not started by emu"),
    ],
)
def test_what_needs_a_launch_is_warned_of(
    name: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.warns(RuntimeWarning, match=said):
        Unlaunched.from_environment()


def test_checks_of_one_process_are_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_CHECK", "bounds,uninit,streams")
    assert Unlaunched.from_environment() == Unlaunched()
