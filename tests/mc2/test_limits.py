"""Limits of the hardware."""

from __future__ import annotations

import pytest

from emu import mc2
from emu.comm.errors import ArgumentError


def test_limits_of_the_hardware():
    mc2.HardwareLimits.A2.check(256, 8, 16)
    mc2.HardwareLimits.A3.check(65534, 32, 1)
    for limits, arguments, pattern in (
        (mc2.HardwareLimits.A2, (255, 8, 1), r"k must be in \[256, 65535\) on A2, but got 255"),
        (mc2.HardwareLimits.A3, (65535, 8, 1), r"k must be in \[256, 65535\) on A3, but got 65535"),
        (
            mc2.HardwareLimits.A2,
            (256, 16, 1),
            r"rank_size must be one of 2, 4, 8 on A2, but got 16",
        ),
        (mc2.HardwareLimits.A2, (256, 8, 17), r"comm_turn must be at most 16 on A2, but got 17"),
    ):
        with pytest.raises(ArgumentError, match=pattern):
            limits.check(*arguments)
