"""Numbers with units: three digits, the unit that fits, and nothing odd where one unit ends and the next begins."""

from __future__ import annotations

import math

import pytest

from emu.kernels.core.figures import bytes_text, count_text, seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (math.inf, "inf s"),
        (1.23456e-5, "12.3 us"),
        (-2e-3, "-2 ms"),
        (999.4e-6, "999 us"),
        (999.6e-6, "1 ms"),
        (52e-9, "52 ns"),
        (4e-13, "0.0004 ns"),
        (4321.0, "4321 s"),
        (3e6, "3e+06 s"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1010 * 1024, "1010 KiB"),
        (1536, "1.5 KiB"),
        (-3 << 20, "-3 MiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_counts() -> None:
    assert [count_text(n) for n in (7, 999, 1500.0, 2.5e10)] == ["7", "999", "1.5 k", "25 G"]
