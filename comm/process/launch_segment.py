"""The segment of a world that is to be launched: as large as what its settings ask for."""

from __future__ import annotations

from dataclasses import replace

from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.fault_options import Faults
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.process.launch_options import SHM, LaunchOptions
from emu.comm.world import recording, steering
from emu.comm.world.listening import load_room
from emu.kernels.core import environment


def make_segment(
    n_pes: int, options: LaunchOptions, *, can_have_faults: bool = True
) -> tuple[Segment, LaunchOptions]:
    """Make the segment of a world; return it, and the settings with what the environment adds to them.

    Raises:
        ArgumentError: ``EMU_CHECK``, ``EMU_MEMORY_MODEL`` or ``EMU_FAULT`` breaks a rule, a fault cannot happen, or
            another transport is asked for.
        SymmetricMemoryError: The segment cannot be made.
    """
    if options.transport != SHM:
        raise ArgumentError(
            f"transport must be {SHM!r} but in emu.launch(fn, n_pes), but got {options.transport!r}: PEs that stay, take "
            "turns, are shown or are forks of this process are all on this machine"
        )
    checks = options.checks if options.checks is not None else Checks.from_environment()
    zones = environment.red_zones()
    layout = Layout(n_pes=n_pes, heap_bytes=options.heap_size, zones=zones)
    if checks.watches_pes:
        layout = replace(layout, listener_bytes=load_room().area_bytes(layout, checks))
    if options.schedule is not None:
        layout = replace(layout, schedule_bytes=steering.load_room().area_bytes(layout))
    if options.traces:
        needed = recording.load_room().area_bytes(layout, options.traces)
        layout = replace(layout, trace_bytes=needed)
    faults = options.faults
    if faults is None and can_have_faults:
        faults = Faults.from_environment()
    if faults is not None:
        faults.check(n_pes, orders=_what_orders_stores(checks, options))
        faults = faults if faults.each else None
    made = replace(options, checks=checks, faults=faults)
    return Segment.create(layout, link=options.link), made


def _what_orders_stores(checks: Checks, options: LaunchOptions) -> str:
    """Return what says when stores arrive, apart from faults; empty: nothing."""
    if options.schedule is not None:
        return "a schedule"
    if checks.watches_pes:
        return f"the checks {checks.names}"
    return "a link" if options.link is not None else ""
