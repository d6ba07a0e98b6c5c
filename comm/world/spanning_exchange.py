"""The exchanges of a group that spans hosts: the rounds of one host, with staged memory copied at each meeting.

Everything is staged, as what others would read in place may lie on another host. Before a member is counted at a
barrier, the agents copy to the other hosts of the group what their members read behind it: the header of the call, the
pieces that were staged for this round, and the slice that was reduced in the round before. A piece goes only to hosts
that have a member who reads it. As the buffers alternate on one host, so do their mirrors on another: a member that has
passed the barrier of a round has read what was staged for the round before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import KEPT, share_of
from emu.comm.sync.signal_numbers import DONE
from emu.comm.world import rounds
from emu.comm.world.agreement import OPENING, ROUND
from emu.comm.world.allocation import Allocation
from emu.comm.world.collective_header import UNKNOWN, CollectiveHeader
from emu.comm.world.exchange import Exchange
from emu.comm.world.prepared import NothingPrepared
from emu.comm.world.rounds import field
from emu.kernels.core.jit import entry_when_called

if TYPE_CHECKING:
    from emu.comm.hosts.places import Places

_run_phase: Callable[..., int] = entry_when_called(rounds.run_phase, 1)
_ROUND, _PARITY, _OPENING = map(field, ("round", "parity", "opening"))
_SLICED, _DELIVERY, _COUNT, _TOTAL = map(field, ("sliced", "delivery", "count", "total"))
_ITEMSIZE, _REDUCES = map(field, ("itemsize", "reduces"))

_BY_MEMBER = frozenset({"all_to_all", "all_to_all_v", "scatter", "reduce_scatter"})
"""Collectives whose staged blocks are for one member each, in the order of the members."""

Row = tuple[int, int, int]


class SpanningExchange(Exchange):
    """The exchanges of a group with members on several hosts."""

    chunk_bytes, all_bytes = 8 << 20, 128 << 20
    """Rounds are larger than on one host: each costs a message to every host and back."""

    def __init__(self, group: Allocation) -> None:
        super().__init__(group)
        self.prepared = NothingPrepared(self)
        places = cast("Places", group.places)  # type: ignore[attr-defined] # of a SpanningGroup
        self._hosts = [places.host_of(pe) for pe in group.members]
        self._here = places.here
        my = group.my_pe
        base = group.segment.address
        self._at_headers = int(self.headers[my]) - base
        self._at_staging = int(self.staging[my]) - base
        self._at_results = int(self._results[my]) - base

    def place(self, array: Array) -> int:
        """Return ``UNKNOWN``: nothing is used where it lies."""
        return UNKNOWN

    def _drive(self, header: CollectiveHeader, plan: Words) -> None:
        """Do all rounds, or the opening if that is what the plan says, and meet before each."""
        while _run_phase(id(plan)) != DONE:
            opening = int(plan[_OPENING])
            tag = header.tag + (OPENING if opening else ROUND)
            self.pass_barrier(
                header, self.group._arrive(tag, list(self._read_by_others(header, plan)))
            )
            if opening:
                return

    # --- what others read ------------------------------------------------------------------

    def _read_by_others(self, header: CollectiveHeader, plan: Words) -> Iterator[Row]:
        """Yield the memory that members on other hosts read behind the next barrier, as :meth:`Membership._arrive` takes it."""
        turn, parity = int(plan[_ROUND]), int(plan[_PARITY])
        if plan[_OPENING]:
            yield self._at_headers + parity * self.header_bytes, self.header_bytes, -1
        slot = self._at_staging + (parity + turn & 1) * self.chunk
        if plan[_SLICED]:
            if len(self.rows):
                yield from self._slices(plan, slot)
        else:
            yield from self._pieces(header, turn, slot)
        if plan[_DELIVERY] == KEPT and turn:
            _, count = self._slice(plan, self.group.my_pe, turn - 1)
            if count:
                start = self._at_results + (parity + turn - 1 & 1) * self.slot
                yield start, count * int(plan[_ITEMSIZE]), -1

    def _pieces(self, header: CollectiveHeader, turn: int, slot: int) -> Iterator[Row]:
        """Yield the pieces of blocks that were staged in a turn."""
        for _, nbytes, offset, piece, _ in self.rows.tolist():
            count = min(piece, nbytes - turn * piece)
            if count <= 0:
                continue
            for host in self._readers(header, offset):
                if host != self._here:
                    yield slot + offset, count, host

    def _readers(self, header: CollectiveHeader, offset: int) -> tuple[int, ...]:
        """Return the hosts that read the block at an offset of the staging buffer; -1 stands for all."""
        if header.kind in _BY_MEMBER:
            return (self._hosts[offset // self.slot],)
        if header.kind == "gather":
            return (self._hosts[header.root],)
        if header.kind == "permute":
            return tuple(self._hosts[t] for s, t in header.pairs if s == self.group.my_pe)
        return (-1,)

    def _slice(self, plan: Words, member: int, turn: int) -> tuple[int, int]:
        """Return the slice that a member reduces; as :func:`emu.comm.engine.steps.slice_of`."""
        count, total = int(plan[_COUNT]), int(plan[_TOTAL])
        here = max(0, min(count, total - turn * count))
        return share_of(here, self.group.n_pes, int(plan[_ITEMSIZE]), member)

    def _slices(self, plan: Words, slot: int) -> Iterator[Row]:
        """Yield the slices that members on other hosts reduce, those of one host together."""
        size, turn = int(plan[_ITEMSIZE]), int(plan[_ROUND])
        start = end = 0
        host = self._here
        for member, there in enumerate(self._hosts):
            first, count = self._slice(plan, member, turn)
            if there != host:
                if host != self._here and end > start:
                    yield slot + start * size, (end - start) * size, host
                start, host = first, there
            end = first + count
        if host != self._here and end > start:
            yield slot + start * size, (end - start) * size, host
