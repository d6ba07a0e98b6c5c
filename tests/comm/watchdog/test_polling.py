"""The observer of loops, asked by hand."""

from __future__ import annotations

import sys

import numpy as np

import emu
from emu.comm.watchdog.polling import LoopObserver


def judged_alone() -> tuple[int, int]:
    """Ask by hand, twice where nothing changes and twice where a variable does."""
    world = emu.world()
    words = world.alloc(1, np.int32)
    observer = LoopObserver(world.segment, world.my_pe)
    block = world.segment.block(world.my_pe)
    from emu.comm.layout import B_SAME

    frames = []

    def ask() -> int:
        observer.answer(frames[0])
        return 0

    frames.append(sys._getframe())
    asked = 0
    while asked < 3:  # a call of something that is not known to be harmless
        ask()
        asked += 1
    return int(block[B_SAME]), int(words.local[0])


def test_a_loop_that_calls_what_changes_something_is_no_wait() -> None:
    assert emu.launch(judged_alone, 1) == [(0, 0)]
