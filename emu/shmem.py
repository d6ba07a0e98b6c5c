"""``emu.shmem``: communication from inside of kernels, in the manner of OpenSHMEM.

Functions for ``@triton.jit`` kernels of a PE, over the symmetric memory of its World::

    from emu import shmem

    @triton.jit
    def ring(inbox, flag, out):
        me, n = shmem.my_pe(), shmem.n_pes()
        shmem.put_signal(inbox, out, 64, flag, 1, (me + 1) % n)
        shmem.wait_until(flag, "ge", 1)

On the host, :func:`team` gives the number by which kernels know a group.
"""

from __future__ import annotations

from emu.comm.errors import ArgumentError
from emu.comm.world.group import Group
from emu.triton.language.shmem.collectives import all_gather, all_to_all, broadcast, reduce
from emu.triton.language.shmem.device import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    barrier,
    fence,
    get,
    load,
    my_pe,
    n_pes,
    put,
    put_signal,
    quiet,
    remote,
    signal,
    store,
    test,
    wait_until,
    world_pe,
)

__all__ = [
    "all_gather",
    "all_to_all",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "barrier",
    "broadcast",
    "fence",
    "get",
    "load",
    "my_pe",
    "n_pes",
    "put",
    "put_signal",
    "quiet",
    "reduce",
    "remote",
    "signal",
    "store",
    "team",
    "test",
    "wait_until",
    "world_pe",
]


def team(group: Group) -> int:
    """Return the number by which kernels know a group: their argument ``team``.

    Args:
        group: The World, or a group that this PE has made with ``world.group``.

    Raises:
        ArgumentError: It is none of this PE's groups.
    """
    if not isinstance(group, Group):
        raise ArgumentError(f"group must be a World or a group of one, but got {group!r:.80}")
    return group.index
