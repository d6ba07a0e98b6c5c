"""The World of this process: set once by the PE's main function, read by ``emu.world()``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from emu.comm.errors import CommError, HostsError

if TYPE_CHECKING:  # it loads Numba, and launchers ask whether they are PEs
    from emu.comm.hosts.places import Places
    from emu.comm.world.group import Group
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


def places_of(group: Group) -> Places | None:
    """Return where the PEs of a World over several hosts are, of which this is a group; None: all are on this one."""
    port = getattr(group, "port", None)
    places: Places | None = None if port is None else port.places
    return places


def spans_hosts(group: Group | None = None) -> bool:
    """Return whether a group has members on several hosts.

    Args:
        group: The group. Default: all PEs; a process that is none spans no hosts.
    """
    given = _current if group is None else group
    if given is None:
        return False
    places = places_of(given)
    return places is not None and len(places.hosts_of(given.members)) > 1


def check_one_host(what: str, group: Group | None = None) -> None:
    """Raise if PEs that need to be on one host are on several.

    Args:
        what: What needs it, at the beginning of a sentence.
        group: The group of these PEs. Default: all.

    Raises:
        HostsError: They are on several.
    """
    given = _current if group is None else group
    if given is not None and spans_hosts(given):
        raise HostsError(
            f"{what} needs all PEs on one host, but group {given.name!r} spans several; take a group of PEs of one host where "
            "it goes by groups, run it with `emu run -n N`, without --pes-per-node, or use emu.world(): put, get, atomics, "
            "signals, locks, barriers and collectives reach other hosts"
        )


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
