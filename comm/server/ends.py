"""Which end of a communication server a PE has in a group."""

from __future__ import annotations

from emu.comm.server.server_end import ServerEnd
from emu.comm.world.current import places_of, spans_hosts
from emu.comm.world.group import Group


def server_of(group: Group) -> ServerEnd:
    """Return this PE's end of its server in ``group``; both are made at the first call.

    Raises:
        CommError: This process is not a PE.
    """
    server = group.server
    if not isinstance(server, ServerEnd):
        server = group.server = _type_for(group)(group)
    return server


def _type_for(group: Group) -> type[ServerEnd]:
    if places_of(group) is None:
        return ServerEnd
    from emu.comm.server.spanning import SettlingEnd, SpanningEnd

    return SpanningEnd if spans_hosts(group) else SettlingEnd
