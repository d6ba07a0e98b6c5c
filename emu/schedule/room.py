"""What the launcher and the PEs need of this package: :class:`emu.comm.world.steering.Room`."""

from __future__ import annotations

from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.schedule_options import Schedule
from emu.comm.world.steering import Steering
from emu.kernels.core import environment
from emu.schedule.area import Area
from emu.schedule.trace import read_trace

__all__ = ["area_bytes", "read_trace", "steer"]


def area_bytes(layout: Layout) -> int:
    """Return how large the area of PEs that take turns must be."""
    return Area(layout.n_pes).nbytes


def steer(segment: Segment, me: int, pe: int, schedule: Schedule, *, late: bool) -> Steering:
    """Return what steers a PE whose block is at ``me``."""
    from emu.schedule.turns import Turns

    if schedule.seed:  # kernels that this PE loads from now on run their programs in an order of it
        environment.pass_on({"EMU_PROGRAM_ORDER": str(schedule.seed % (1 << 32))})
    return Turns(segment, me, pe, schedule, late=late)
