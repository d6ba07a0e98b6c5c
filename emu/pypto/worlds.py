"""What there is to know of the World that a program runs on."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from collections.abc import Callable

from emu.comm.layout import B_SPINS
from emu.comm.world.group import Group
from emu.comm.world.world import World

_PLAIN = (World, Group)

give_way: Callable[[], None] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))
"""Let other PEs have the core."""


def moves_rows(group: Group) -> bool:
    """Return whether a group moves rows at once: nothing listens or steers, no link is emulated; it may be recorded."""
    kind = type(group)
    return kind in _PLAIN or bool(kind.__dict__.get("moves_rows"))


def shares_cores(group: Group) -> bool:
    """Return whether PEs share cores, so that none of them looks at a word again and again."""
    return not ctypes.c_int64.from_address(group.me + 8 * B_SPINS).value
