"""Make the World of a PE, of the class that its launch asks for."""

from __future__ import annotations

from emu.comm.check_options import Checks
from emu.comm.fault_options import Faults
from emu.comm.memory.segment import Segment
from emu.comm.schedule_options import Schedule
from emu.comm.world.linked import LinkedWorld
from emu.comm.world.world import World


def make_world(
    segment: Segment,
    me: int,
    pe: int,
    *,
    poison: bool,
    checks: Checks | None = None,
    schedule: Schedule | None = None,
    faults: Faults | None = None,
) -> World:
    """Make the World of PE ``pe``, whose block is at ``me``: with emulated links if the segment has one.

    Args:
        segment: Shared memory of the world.
        me: Address of the PE's block.
        pe: Its number.
        poison: Whether new symmetric memory is poisoned.
        checks: What is looked for as the PE runs. Default: nothing, and then nothing listens.
        schedule: In which order the PEs' operations take place. Default: as it happens.
        faults: What goes wrong. Default: nothing. Without a schedule and faults nothing steers.
    """
    if schedule is not None or faults is not None:
        from emu.comm.world.steered import make_steered_world

        return make_steered_world(
            segment,
            me,
            pe,
            poison=poison,
            checks=checks or Checks(),
            schedule=schedule,
            faults=faults,
        )
    if checks is not None and checks.watches_pes:
        from emu.comm.world.listened import make_listened_world

        return make_listened_world(segment, me, pe, poison=poison, checks=checks)
    kind = World if segment.link is None else LinkedWorld
    return kind(segment, me, pe, poison=poison)
