"""Programs on several streams, with what they lack and without."""

from __future__ import annotations

import pytest

import emu

pytest.importorskip("torch")

from stream_programs import BEGIN, PROGRAMS, RIGHT, expected, repaired, run_all

RACY = {name: BEGIN + text for name, text in PROGRAMS.items()}


@pytest.fixture(scope="module")
def found():
    programs = dict(RACY)
    programs |= {f"{name}, repaired": repaired(text) for name, text in RACY.items()}
    programs |= {f"{name}, right": BEGIN + text for name, text in RIGHT.items()}
    (results,) = emu.launch(run_all, 1, args=(programs,), preload=["torch"])
    return results


@pytest.mark.parametrize("name", RACY)
def test_a_missing_order_is_reported_with_both_lines(name, found) -> None:
    assert found[name] == expected(RACY[name])


@pytest.mark.parametrize("name", RACY)
def test_the_repaired_program_is_silent(name, found) -> None:
    assert found[f"{name}, repaired"] is None


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_that_lacks_nothing_is_silent(name, found) -> None:
    assert found[f"{name}, right"] is None
