"""What the launcher reads of a world's state."""

from __future__ import annotations

import numpy as np

import emu
from emu.comm.watchdog.monitor import last_writer


def a_failed_compare_swap() -> tuple[int, int]:
    world = emu.world()
    words = world.alloc(1, np.uint32, name="words")
    if world.my_pe == 0:
        world.signal_op(words, 2**32 - 1, 0)
    world.barrier()
    if world.my_pe == 1:
        assert world.compare_swap(words, 5, 6, 0) == 2**32 - 1
        assert world.swap(words, 2**32 - 1, 0) == 2**32 - 1
        assert world.fetch_add(words, 0, 0) == 2**32 - 1
    world.barrier()
    assert last_writer(world.segment, 0, words.offset) == "PE 0 (SET)"
    world.barrier()
    if world.my_pe == 0:
        assert world.compare_swap(words, 2**32 - 1, 6, 0) == 2**32 - 1
        assert last_writer(world.segment, 0, words.offset) == "PE 0 (compare_swap)"
    world.barrier()
    return int(words.on(0)[0]), world.my_pe


def test_calls_that_change_nothing_wrote_nothing() -> None:
    assert emu.launch(a_failed_compare_swap, 2) == [(6, 0), (6, 1)]
