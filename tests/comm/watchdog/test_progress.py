"""The checksum of the heaps, by which the launcher sees that something moves."""

from __future__ import annotations

import numpy as np

import emu
from emu.comm.watchdog.progress import digest


def checksums() -> list[int]:
    world = emu.world()
    words = world.alloc(1 << 20, np.int32)
    found = [digest(world.segment)]
    for index in (0, 500_000, (1 << 20) - 1):
        words.local[index] = 7
        found.append(digest(world.segment))
    found.append(digest(world.segment))
    return found


def test_the_checksum_sees_every_word() -> None:
    (found,) = emu.launch(checksums, 1)
    assert len(set(found)) == 4
    assert found[-1] == found[-2]
