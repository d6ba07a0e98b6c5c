"""Collectives whose blocks are not dense: each member copies what it needs out of the others' heaps.

The blocks of :class:`emu.comm.world.exchange.Transfer` are runs of bytes. Where what a member needs of
another one's input is strided, it reads the whole input where it lies, and copies by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.comm.arrays import Array, Bytes, Words
from emu.comm.world.collective_header import IN, CollectiveHeader
from emu.comm.world.collectives import Collectives
from emu.comm.world.exchange import Fetch, Transfer


def is_in_heap(group: Collectives, array: Array) -> bool:
    """Return whether others can read a dense array where it lies: it is in the heap."""
    return array.flags.c_contiguous and group._exchange.offset(array) >= 0


def read_in_place(
    group: Collectives,
    kind: str,
    source: Array,
    details: tuple[int, ...],
    copy: Callable[[int, Bytes], None],
) -> None:
    """Call a collective in which each member copies out of the others' inputs.

    Args:
        group: The group; every member calls.
        kind: Name of the collective, for the comparison of calls.
        source: This member's input, for which :func:`is_in_heap` holds.
        details: What else the members must agree on.
        copy: Called with the number of each member, this one's first, and the bytes of its input.

    Raises:
        CollectiveMismatchError: The members disagree. Nothing was written.
    """
    exchange, segment = group._exchange, group.segment
    nbytes = source.nbytes

    def fetch(headers: Words) -> Fetch:
        starts = (exchange.heaps - segment.address + headers[:, IN]).tolist()
        for step in range(group.n_pes):
            pe = (group.my_pe + step) % group.n_pes
            copy(pe, segment.bytes[starts[pe] : starts[pe] + nbytes])
        return Fetch((), 0)

    exchange.execute(
        Transfer(
            header=CollectiveHeader(
                kind=kind,
                dtype=source.dtype,
                shape=source.shape,
                pairs=tuple((each, each) for each in details),
            ),
            slot=exchange.chunk,
            stage=[],
            senders=(),
            fetch=fetch,
            source=exchange.offset(source),
        )
    )
