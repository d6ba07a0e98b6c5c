"""Values of the option ``check``."""

from __future__ import annotations

from typing import Any

import pytest

from emu.triton.runtime.check_modes import MODES, as_mode, bounds_of, has_uninit


@pytest.mark.parametrize("value", [None, False, ""])
def test_no_check(value: Any) -> None:
    assert as_mode(value) is None
    assert not has_uninit(None)


@pytest.mark.parametrize("mode", MODES)
def test_modes_are_found_in_any_order(mode: str) -> None:
    assert as_mode(mode) == mode
    assert as_mode(" , ".join(reversed(mode.split(",")))) == mode
    assert has_uninit(mode) == ("uninit" in mode)
    assert bounds_of(mode) == next((n for n in mode.split(",") if n != "uninit"), None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("unint", "must be one of .* got 'unint'; did you mean uninit"),
        ("bounds,race", "must be one of .* got 'bounds,race'"),
        ("bounds,", "must be one of"),
        ("bounds,bounds:all", "one of bounds and bounds:all"),
        (True, "must be one of .* got True"),
        (["uninit"], r"must be one of .* got \['uninit'\]"),
    ],
)
def test_others_are_refused(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        as_mode(value)
