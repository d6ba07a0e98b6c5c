"""Which end of a communication server a PE has in a group."""

from __future__ import annotations

from emu.comm.server.server_end import ServerEnd
from emu.comm.world.current import spans_hosts
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
    if not spans_hosts(group):
        return ServerEnd
    from emu.comm.server.spanning import SpanningEnd

    return SpanningEnd
