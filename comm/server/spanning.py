"""The communication server of a communicator whose members are on several hosts.

It is the one of one host, but for two things. What a member says to the others in words of its area, and the rows of a turn
that they fetch or reduce, goes to their hosts, where it is stored in mirrors of its memory; there their servers find it
with the compiled code of one host. And what is said goes behind the rows that it stands for: agents keep the order of what
one port sends to one host.

So a turn's rows are on every host that needs them before anybody asks, members are combined in their order from memory of
one's own host, and the bits are those of one host. Python runs between the steps of a turn.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any

from emu.comm.arrays import Array, Bytes
from emu.comm.errors import StoppedError
from emu.comm.hosts.side_port import Row, side_port
from emu.comm.hosts.words import (
    AMOUNT,
    AREA,
    FAILURE,
    GROUP,
    MEMBER,
    OFFSET,
    RECORD_WORD,
    TURN_WORD,
    WAY,
    WORD,
)
from emu.comm.server import executor, transfer_tables
from emu.comm.server.area import Areas
from emu.comm.server.server import STEP_TYPES, Server
from emu.comm.server.server_end import ServerEnd
from emu.comm.server.turn_rows import TurnRows
from emu.comm.server.words import (
    DECODED,
    LOG,
    LOG_TURNS,
    LOG_WORDS,
    PULLED,
    READY,
    RECORDS,
    REDUCED,
    SLOTS,
)
from emu.comm.world.agreed_heap import AgreedHeap
from emu.comm.world.array import SymmetricArray
from emu.comm.world.current import places_of
from emu.comm.world.group import Group


class SpanningAreas(Areas):
    """The areas of a communicator over hosts: those of members elsewhere are mirrors.

    Attributes:
        hosts: Host of each member.
        port: The way of this PE's servers to other hosts.
    """

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        places = places_of(group)
        assert places is not None
        self.hosts = [places.host_of(pe) for pe in group.members]
        self._others = [h for h in places.hosts_of(group.members) if h != places.here]
        self.port = side_port(group.port)  # type: ignore[attr-defined] # of a SpanningGroup
        self._start = int(self.addresses[self.my]) - group.segment.address
        self._same = {
            GROUP: group.index,
            AREA: int(self.addresses[self.my] - self.heaps[self.my]),
            MEMBER: self.my,
        }

    @staticmethod
    def _views(area: SymmetricArray) -> list[Bytes]:
        group = area.group
        layout = group.segment.layout
        starts = [layout.heaps + pe * layout.stride + area.offset for pe in group.members]
        return [group.segment.bytes[start : start + area.nbytes] for start in starts]

    def tell(self, word: int, value: int, rows: list[Row], logged: int = -1) -> None:
        """Tell other hosts the value of a word of this member, behind the rows that it stands for.

        Args:
            word: One of the words that count turns.
            value: Its value.
            rows: What others read then.
            logged: Number of the turn whose times go with it, or -1.
        """
        news = {**self._same, WAY: TURN_WORD, WORD: word, AMOUNT: value}
        times = None
        if logged >= 0:
            place = LOG + LOG_WORDS * (logged % LOG_TURNS)
            news[OFFSET] = self._start + 8 * place
            times = self.mine[place : place + LOG_WORDS]
        self.port.push(news, self._others, rows, times)

    def tell_record(self, number: int) -> None:
        """Tell other hosts the record of a task of this member."""
        slot = number % SLOTS
        news = {**self._same, WAY: RECORD_WORD, WORD: DECODED, AMOUNT: number + 1}
        news[OFFSET] = self._start + 8 * (RECORDS + slot * self.record_words)
        self.port.push(news, self._others, payload=self.records[self.my][slot])

    def report_failure(self, member: int) -> None:
        """Report to every member on every host that ``member`` failed."""
        super().report_failure(member)
        with contextlib.suppress(StoppedError):  # then all end
            self.port.push({**self._same, WAY: FAILURE, AMOUNT: 1 + member}, self._others)


class SpanningServer(Server):
    """The server of this PE in a group that spans hosts."""

    _areas: SpanningAreas

    def __init__(self, group: Group, areas: Areas) -> None:
        super().__init__(group, areas)
        assert isinstance(areas, SpanningAreas)
        assert isinstance(group.heap, AgreedHeap)
        self._heap = group.heap.through(areas.port)
        self._carry_out = self._take_turns
        self._told = self._decoded
        self._agreed: Array | None = None

    def _serve(self) -> bool:
        try:
            return super()._serve()
        except StoppedError:  # what was sent to other hosts is not taken any more
            return False

    def _agree(self, number: int) -> Array | None:
        for told in range(self._told, self._decoded):
            self._areas.tell_record(told)
        self._told = self._decoded
        self._agreed = super()._agree(number)
        return self._agreed

    def _take_turns(self, *tables: Any) -> bool:
        """Execute the turns of the task that was agreed on, as :func:`emu.comm.server.executor.execute`."""
        areas, task, step = self._areas, tables[3][0], executor.execute_step
        records = self._agreed
        assert records is not None
        rows = TurnRows(
            records,
            self._my,
            areas.hosts,
            areas.heaps,
            self._staged,
            transfer_tables.staging_of(records),
            self._group.segment.address,
        )
        while task["next_turn"] < task["turns"]:
            turn = int(task["next_turn"])
            number = int(task["first_turn"]) + turn
            if not step(executor.RELEASE, *tables):
                return False
            start = time.monotonic_ns()
            if not step(executor.STAGE, *tables):
                return False
            areas.tell(READY, number + 1, rows.inputs(turn, number))
            if not step(executor.FETCH, *tables):
                return False
            if task["kind"] == executor.ALL_REDUCE:
                areas.tell(REDUCED, number + 1, rows.results(turn, number))
                if not step(executor.COLLECT, *tables):
                    return False
            place = LOG + LOG_WORDS * (number % LOG_TURNS)
            times = int(task["number"]), turn, start, time.monotonic_ns()
            areas.mine[place : place + LOG_WORDS] = times
            areas.tell(PULLED, number + 1, [], logged=number)
            if not step(executor.END, *tables):
                return False
        return True


class SettlingEnd(ServerEnd):
    """The compute side's end of this PE's server in a World that spans hosts, in a group of this host."""

    def post(self, message: Array, committed: int) -> int:
        """Leave a message, as :meth:`ServerEnd.post`, with what this PE has stored on other hosts complete there."""
        self._settle()
        return super().post(message, committed)

    def release(self, slot: int, before: int, committed: int, base: int) -> None:
        """Release turns, as :meth:`ServerEnd.release`, with what this PE has stored on other hosts complete there."""
        self._settle()
        super().release(slot, before, committed, base)

    def _settle(self) -> None:
        """Wait for what this PE has stored on other hosts: who sees what its server does next must see that, too."""
        self.group.port.settle()  # type: ignore[attr-defined] # of a SpanningGroup or HereGroup


class SpanningEnd(SettlingEnd):
    """The same in a group that spans hosts itself."""

    _areas_type = SpanningAreas
    _server_type = SpanningServer

    def __init__(self, group: Group) -> None:
        _load_step()
        super().__init__(group)


@functools.cache
def _load_step() -> None:
    """Load or compile in the main thread what the server calls."""
    kernel: Any = executor.execute_step
    if hasattr(kernel, "compile"):  # absent under NUMBA_DISABLE_JIT
        kernel.compile(STEP_TYPES)
