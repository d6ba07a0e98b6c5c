"""A World of one PE for a process that is none, beside the World that :func:`emu.world` may give later.

Nothing waits for anybody in it, so nobody watches it. It is for memory that must lie in some World's heap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.process.launch_options import DEFAULT_HEAP_SIZE
from emu.kernels.core import environment
from emu.kernels.core.environment import usable_cores

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.world import World


class _Here:
    world: World | None = None
    process = 0


def world_of_one() -> World:
    """Return the World of this process alone; :func:`emu.world` does not give it. It lasts as long as the process.

    A process that was forked has another one than that from which it was forked.

    Raises:
        SymmetricMemoryError: There is not enough shared memory.
    """
    if _Here.world is None or _Here.process != os.getpid():
        _Here.world, _Here.process = _make(), os.getpid()
    return _Here.world


def _make() -> World:
    from emu.comm.memory.heap import register
    from emu.comm.world.making import make_world

    layout = Layout(n_pes=1, heap_bytes=DEFAULT_HEAP_SIZE, zones=environment.red_zones())
    segment = Segment.create(layout)
    me = register(segment, 0, usable_cores())
    return make_world(segment, me, 0, poison=environment.poison())
