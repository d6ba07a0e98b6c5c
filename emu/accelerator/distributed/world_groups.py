"""Which group of the World stands behind a process group of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from emu.comm.world.current import world

if TYPE_CHECKING:  # they load Numba
    from emu.comm.world.group import Group
    from emu.comm.world.world import World

_epochs: WeakKeyDictionary[World, int] = WeakKeyDictionary()


def new_epoch(everyone: World) -> int:
    """Begin another ``init_process_group`` in a World, and with it a new name space for groups."""
    _epochs[everyone] = _epochs.get(everyone, 0) + 1
    return _epochs[everyone]


def world_group_of(name: str, ranks: Sequence[int]) -> Group:
    """Return the World's group for the process group that torch calls ``name``.

    Args:
        name: Torch's name of the group.
        ranks: Members; none for the group of all.
    """
    everyone = world()
    epoch = _epochs.get(everyone, 0)
    return everyone.group(f"torch {epoch}.{name}", ranks) if ranks else everyone
