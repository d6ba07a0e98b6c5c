"""The odometer of a plan's outer axes, step by step against nested loops."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.strided import access_plan as plans
from emu.kernels.strided.odometer import advance, first_run, inner_loop, repeats, set_odometer

# Five axes that no two can be joined: the inner loop takes two, the odometer three.
SHAPE = (2, 3, 4, 2, 5)
TARGET = (2000, 500, 100, 40, 4)
SOURCE = (4, 80, -400, 3000, 16)


@pytest.fixture
def plan():
    return plans.copy_plan(SHAPE, TARGET, SOURCE, 4)


def test_every_run_of_the_inner_loop_is_reached_in_order_and_then_the_first(plan):
    words = plan.words
    outer = words[plans.OUTER :].reshape(-1, 3)[: words[plans.RANK]]
    shift = words[[plans.TARGET_SHIFT, plans.SOURCE_SHIFT]]
    expected = [
        tuple(shift + (np.array(at)[:, None] * outer[:, 1:]).sum(0))
        for at in np.ndindex(*outer[:, 0])
    ]
    assert repeats(plan.address) == len(expected) > 1
    counters = np.zeros(plans.MAX_AXES, np.int64)
    at = first_run(counters.ctypes.data, plan.address, 10_000, 90_000)
    for target, source in [*expected, expected[0]]:
        assert at == (10_000 + target, 90_000 + source)
        at = advance(counters.ctypes.data, plan.address, *at)
    # From any run on: each of several PEs takes a part of the runs.
    for index, (target, source) in enumerate(expected):
        assert set_odometer(counters.ctypes.data, plan.address, index) == (target, source)
        following = expected[(index + 1) % len(expected)]
        assert advance(counters.ctypes.data, plan.address, target, source) == following


def test_the_inner_loop_is_read_as_it_was_written(plan):
    loop = inner_loop(plan.address)
    assert (loop.form, loop.width, *loop.rows, *loop.columns, loop.block) == tuple(
        plan.words[: plans.TARGET_SHIFT]
    )
