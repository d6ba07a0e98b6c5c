"""Agreement on the calls of a group: the tags that barriers compare, and the report when they differ.

Barriers and all rounds of all collectives of a group pass the same barrier, so members that call in
different orders meet there. Each brings the *tag* of its call. The first to arrive leaves its tag beside the
barrier's counter, the others compare theirs with it before they count themselves as arrived, and a difference
is noted for this generation of the barrier. So every member that passes the barrier knows whether all came with
the same tag, and all know the same: no order of arrival, and no header that is there already for a later call, can
hide a difference. It costs a compare-and-swap on the cache line that an arrival changes anyway.

A tag says which call and which stage of it. What else must agree (dtype, shape, op, root, pairs) stands in the
headers of :mod:`emu.comm.world.exchange`, which are compared behind a barrier at which the tags agreed.

All members that find a difference, in tags or in headers, find it at the same generation. They then exchange
their calls in :func:`mismatch`, and raise the same error. Nothing is left behind: what the members
call next meets as if the calls that differed had not been made.
"""

from __future__ import annotations

from emu.comm.errors import CollectiveMismatchError
from emu.comm.layout import CALL_BYTES
from emu.comm.memory.stop import check_stopped
from emu.comm.sync import entry_points
from emu.comm.sync.signal_numbers import DIFFERS, DONE
from emu.comm.world.details import call_site
from emu.comm.world.membership import Membership, Rows, publish_wait

BARRIER, REPORT, FIRST_COLLECTIVE = 1, 2, 8
"""Tags: a barrier; the exchange of a report; from here on collectives, ``STAGES`` each."""

OPENING, ROUND, CLOSING = 0, 1, 2
STAGES = 4

_SHOWN = 4
"""Number of different calls that a report shows."""


def pass_barrier(group: Membership, arrived: int, what: str) -> bool:
    """Wait for the end of a barrier at which this PE has arrived.

    Args:
        group: The group of the barrier.
        arrived: Result of :func:`emu.comm.sync.signals.barrier_arrive`.
        what: Name of the barrier in reports of a hang.

    Returns:
        Whether every member came with the same tag.
    """
    if arrived < DONE:  # a slice has passed: from now on reports must name this wait
        try:
            check_stopped(group.segment)
            generation = arrived
            publish_wait(
                group,
                {
                    "call": "barrier",
                    "group": what,
                    "index": group.index,
                    "generation": generation,
                },
            )
            while arrived < DONE:
                arrived = int(
                    entry_points.barrier_wait(group.me, group.barrier_address, generation)
                )
                if arrived < DONE:
                    check_stopped(group.segment)
        except BaseException:
            entry_points.barrier_leave(group.me, group.barrier_address, 0)
            raise
    return arrived != DIFFERS


def mismatch(group: Membership, call: str) -> CollectiveMismatchError:
    """Exchange calls with the other members, and return the error that all of them raise."""
    segment, layout = group.segment, group.segment.layout
    me = group.members[group.my_pe]
    segment.write_call(me, f"{call}\0{call_site()}")
    _meet(group, [(layout.calls + me * CALL_BYTES, CALL_BYTES, -1)])
    calls = [segment.read_call(member).partition("\0")[::2] for member in group.members]
    _meet(group)  # nobody writes its next call before all have read this one
    who: dict[str, list[int]] = {}
    for pe, (there, _) in enumerate(calls):
        who.setdefault(there, []).append(pe)
    parts = []
    for there, pes in list(who.items())[:_SHOWN]:
        place = calls[pes[0]][1]
        parts.append(f"{_numbers(pes)} called {there}" + (f" at {place}" if place else ""))
    if len(who) > _SHOWN:
        parts.append(f"the others made {len(who) - _SHOWN} more different calls")
    return CollectiveMismatchError(
        f"barriers and collectives must be called alike and in the same order by every member of "
        f"group {group.name!r}, but {', and '.join(parts)}"
    )


def _meet(group: Membership, rows: Rows = ()) -> None:
    pass_barrier(group, group._arrive(REPORT, rows), f"{group.name} (report of a mismatch)")


def _numbers(pes: list[int]) -> str:
    shown = ", ".join(map(str, pes[:8])) + (f" and {len(pes) - 8} more" if len(pes) > 8 else "")
    return f"PE {shown}" if len(pes) == 1 else f"PEs {shown}"
