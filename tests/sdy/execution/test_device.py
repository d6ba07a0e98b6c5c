"""Memory that a device shares with others."""

from __future__ import annotations

import gc

import emu
from emu.comm.world.current import world
from emu.sdy.execution.device import WorldDevice


def addresses() -> tuple[bool, bool]:
    here = world()
    first, second = (WorldDevice(here, 1, here.n_pes) for _ in "ab")
    a, b = first.shared_memory(5000), second.shared_memory(8000)
    a[...], b[...] = 1, 2
    apart = bool((a == 1).all() and (b == 2).all())
    place = a.ctypes.data
    del a, first
    gc.collect()
    third = WorldDevice(here, 1, here.n_pes)
    again = third.shared_memory(6000)
    return apart, again.ctypes.data == place


def test_shared_memory_serves_again_when_its_device_is_gone() -> None:
    assert emu.launch(addresses, 2) == [(True, True)] * 2
