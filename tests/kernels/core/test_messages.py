"""Values in messages."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.messages import shown


def test_long_values_are_shown_short_and_on_one_line() -> None:
    assert shown(["line\n"] * 1000) == shown(["line\n"] * 1000)[:119] + "…"
    assert "\n" not in shown(np.zeros((3, 3)))
    assert shown(3, with_type=True) == "3 of type int"
    assert shown(type("X", (), {"__repr__": lambda _: "\udc80"})()) == "\\udc80"
    assert "\n" not in shown(type("X", (), {"__repr__": lambda _: "a\nb"})())


def test_an_array_shows_its_layout_and_what_cannot_be_shown_its_type() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert shown(np.zeros((2, 0), np.int8)) == "an array of shape (2, 0) and dtype int8"
    assert shown(Hostile()) == "an object of type Hostile"
