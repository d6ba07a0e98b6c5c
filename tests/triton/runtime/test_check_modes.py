"""Values of the option ``check``."""

from __future__ import annotations

from typing import Any

import pytest

from emu.comm.check_options import Checks
from emu.triton.runtime.check_modes import (
    MODES,
    OBSERVED,
    as_mode,
    bounds_of,
    has_benign_races,
    has_race,
    has_streams,
    has_uninit,
    is_observed,
    others_of,
)


@pytest.mark.parametrize("value", [None, False, ""])
def test_no_check(value: Any) -> None:
    assert as_mode(value) is None
    assert not has_uninit(None)
    assert not has_race(None)
    assert not is_observed(None)
    assert not has_streams(None)


@pytest.mark.parametrize("mode", MODES)
def test_modes_are_found_in_any_order(mode: str) -> None:
    assert as_mode(mode) == mode
    assert as_mode(" , ".join(reversed(mode.split(",")))) == mode
    assert has_uninit(mode) == ("uninit" in mode)
    assert has_streams(mode) == ("streams" in mode)
    assert has_race(mode) == ("race" in mode)
    assert has_benign_races(mode) == ("race:all" in mode)
    assert bounds_of(mode) == next((n for n in mode.split(",") if n.startswith("bounds")), None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("unint", "must be made of .* got 'unint'; did you mean 'uninit'"),
        ("streems", "did you mean 'streams'"),
        ("bounds,rice", "must be made of .* got 'rice'"),
        ("race,race:all", "one of race and race:all"),
        ("race+observed", "must be made of"),
        ("bounds,bounds:all", "one of bounds and bounds:all"),
        (True, "must be a string, but got True"),
        (["uninit"], r"must be a string, but got \['uninit'\]"),
    ],
)
def test_others_are_refused(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        as_mode(value)


@pytest.mark.parametrize("mode", [m for m in MODES if has_race(m)])
def test_what_a_kernel_itself_checks_is_the_rest_of_a_mode(mode: str) -> None:
    rest = others_of(mode)
    assert rest == others_of(mode + OBSERVED)
    assert not has_race(rest)
    assert rest == "" or rest in MODES
    assert is_observed(mode + OBSERVED)
    assert not is_observed(mode)


def test_checks_of_pes_are_none_of_kernels() -> None:
    assert as_mode("all") == "bounds,uninit,race,streams"
    assert as_mode("all,bounds:all") == "bounds:all,uninit,race,streams"
    assert as_mode("leak,race,deadlock") == "race"
    assert as_mode("leak,deadlock") is None


@pytest.mark.parametrize("text", ["bounds,", " uninit , bounds", ",", "all,race:all", "leak"])
def test_texts_mean_what_they_mean_to_a_launch_of_pes(text: str) -> None:
    assert set((as_mode(text) or "").split(",")) == set(Checks.parse(text).of_kernels.split(","))
