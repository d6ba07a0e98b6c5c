"""What a schedule may be."""

from __future__ import annotations

import pytest

from emu.comm.errors import ArgumentError
from emu.comm.schedule_options import Schedule, Switch


@pytest.mark.parametrize(
    ("named", "value"),
    [
        ("strategy", "luck"),
        ("seed", -1),
        ("seed", True),
        ("depth", 0),
        ("depth", 65),
        ("length", 0),
        ("late", 1),
        ("switches", 3),
        ("switches", [(1, 2)]),
        ("switches", [(1, 2, -3)]),
        ("prefix", [1.5]),
        ("prefix", "01"),
    ],
)
def test_wrong_values(named: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=named):
        Schedule(**{named: value})  # type: ignore[arg-type]


def test_plain_data_and_back() -> None:
    schedule = Schedule(strategy="pct", seed=4, switches=(Switch(1, 2, 0),), prefix=(0, 1))
    assert Schedule.from_data(schedule.as_data()) == schedule
    for wrong in (None, [], {"speed": 1}, {"seed": "x"}):
        with pytest.raises(ArgumentError):
            Schedule.from_data(wrong)
