"""The World of this process: set once by the PE's main function, read by ``emu.world()``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from emu.comm.errors import CommError

if TYPE_CHECKING:  # it loads Numba, and launchers ask whether they are PEs
    from emu.comm.world.world import World

_current: World | None = None
_set_in = 0  # process


def set_world(world: World | None) -> None:
    """Make ``world`` the one of this process; the launcher's side of a PE calls it."""
    global _current, _set_in
    _current, _set_in = world, os.getpid()


def current() -> World | None:
    """Return the World of this process, or None if it is no PE."""
    return _current


def own() -> World | None:
    """Return the World that this process is a PE of, or None: a fork of a PE is none, though it can use its World."""
    return _current if _set_in == os.getpid() else None


def world() -> World:
    """Return the World of this PE.

    Raises:
        CommError: This process is not a PE.
    """
    if _current is None:
        raise CommError(
            "emu.world() must be called in a PE, but this process is none: run the script with "
            "`emu run -n N script.py`, or start PEs with emu.launch(fn, n_pes)"
        )
    return _current
