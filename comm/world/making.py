"""Make the World of a PE, of the class that its launch asks for."""

from __future__ import annotations

from emu.comm.check_options import Checks
from emu.comm.fault_options import Faults
from emu.comm.hosts.places import Places
from emu.comm.memory.segment import Segment
from emu.comm.schedule_options import Schedule
from emu.comm.world import recording
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
    is_recorded: bool = False,
    places: Places | None = None,
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
        is_recorded: Whether what the PE does is recorded.
        places: Where PEs are, if the World spans hosts; then nothing checks or steers. Default: all are here.
    """
    if is_recorded:
        recording.load_room().start(segment, pe)
    if places is not None:
        from emu.comm.world.spanning import SpanningWorld

        spanning = recording.class_of(SpanningWorld, is_recorded)
        return spanning(segment, me, pe, places, poison=poison)
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
            is_recorded=is_recorded,
        )
    if checks is not None and checks.watches_pes:
        from emu.comm.world.listened import make_listened_world

        return make_listened_world(
            segment, me, pe, poison=poison, checks=checks, is_recorded=is_recorded
        )
    kind = World if segment.link is None else LinkedWorld
    return recording.class_of(kind, is_recorded)(segment, me, pe, poison=poison)
