"""Symmetric memory whose uses are listened to."""

from __future__ import annotations

import numpy as np

import emu
from emu.comm.world.listened_heaps import find_heaps


def places() -> list[bool] | None:
    world = emu.world()
    x, heaps = world.alloc(4, np.int8), find_heaps()
    addresses = [x.on(pe).__array_interface__["data"][0] for pe in range(world.n_pes)]
    x.free()
    if heaps is None:
        return None
    own = np.zeros(4, np.int8).__array_interface__["data"][0]
    return [heaps.low <= address < heaps.high for address in (*addresses, own)]


def test_heaps_of_all_pes_are_found_where_races_are_looked_for() -> None:
    assert emu.launch(places, 2, checks=emu.Checks(race=True)) == [[True, True, False]] * 2


def test_elsewhere_there_are_none() -> None:
    assert find_heaps() is None
    assert emu.launch(places, 1, checks=emu.Checks(leak=True)) == [None]
    assert emu.launch(places, 1, checks=emu.Checks()) == [None]
