"""What members on other hosts read of this member's memory, turn by turn: it has to be there before they look.

Which memory that is follows from their own tables (:mod:`emu.comm.server.transfer_tables`): as the records are the same on
every member, each can make those of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import share_of
from emu.comm.hosts.side_port import Row
from emu.comm.server.tasks import NUMPY_DTYPES
from emu.comm.server.transfer_tables import Staging, tables_of
from emu.comm.tiling.enums import HcclCommand


@dataclass(frozen=True)
class _Run:
    """Memory of which a host reads a part in each turn."""

    address: int
    other_slot: int
    """Distance of the second of two slots; 0: it walks on."""
    step: int
    """Bytes between two turns where it walks on."""
    nbytes: int
    host: int

    def row(self, turn: int, number: int, base: int) -> Row:
        """Return the part of a turn, which has a number in the communicator, in a segment at ``base``."""
        distance = (number & 1) * self.other_slot if self.other_slot else turn * self.step
        return self.address + distance - base, self.nbytes, self.host


class TurnRows:
    """The rows of one task.

    Args:
        records: A record of each member; they fit together.
        my: This member.
        hosts: Host of each member.
        heaps: Address of each member's heap on this host.
        staged: Address of each member's staging memory on this host.
        need: How it is divided.
        base: Address of the segment.
    """

    def __init__(
        self,
        records: Array,
        my: int,
        hosts: Sequence[int],
        heaps: Words,
        staged: Words,
        need: Staging,
        base: int,
    ) -> None:
        self._base = base
        first = records[my]
        command, size = int(first["command"]), NUMPY_DTYPES[int(first["dtype"])].itemsize
        count, n_pes = int(first["count"]), len(records)
        runs: dict[_Run, None] = {}
        self._results: list[_Run] = []
        for pe in range(n_pes):
            if hosts[pe] == hosts[my]:
                continue
            _, pull, members = tables_of(records, pe, heaps, staged, need)
            if len(pull):
                row, start, nbytes, step = (
                    pull[my],
                    0,
                    int(pull[my]["piece"]),
                    int(pull[my]["piece"]),
                )
            else:
                row, step = members[my], count * size
                start, nbytes = 0, step
                if command == HcclCommand.ALLREDUCE:
                    start, nbytes = (n * size for n in share_of(count, n_pes, size, pe))
            address = int(row["source"]) + start
            runs[_Run(address, int(row["other_slot"]), step, nbytes, hosts[pe])] = None
        if command == HcclCommand.ALLREDUCE and runs:
            start, nbytes = (n * size for n in share_of(count, n_pes, size, my))
            kept = int(members[my]["other_result"])
            address = int(members[my]["result"]) + (0 if kept else start)
            self._results = [_Run(address, kept, count * size, nbytes, -1)]
        self._runs = _joined([run for run in runs if run.nbytes])

    def inputs(self, turn: int, number: int) -> list[Row]:
        """Return what others fetch or reduce of a turn; ``number`` is that of the turn in the communicator."""
        return [run.row(turn, number, self._base) for run in self._runs]

    def results(self, turn: int, number: int) -> list[Row]:
        """Return the slice of a turn that this member has reduced and all others collect."""
        return [run.row(turn, number, self._base) for run in self._results if run.nbytes]


def _joined(runs: list[_Run]) -> list[_Run]:
    """Return the runs with those of one host joined that lie one behind the other."""
    found: list[_Run] = []
    for run in runs:
        last = found[-1] if found else None
        alike = last is not None and (last.other_slot, last.step, last.host) == (
            run.other_slot, run.step, run.host
        )  # fmt: skip
        if last is not None and alike and last.address + last.nbytes == run.address:
            found[-1] = _Run(
                last.address, last.other_slot, last.step, last.nbytes + run.nbytes, last.host
            )
        else:
            found.append(run)
    return found
