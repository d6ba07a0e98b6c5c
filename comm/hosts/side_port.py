"""``SidePort``: the port of a PE's communication servers, beside that of its program.

Servers are threads. They neither wait behind a transfer of the program, nor take its sleep or its doorbell for their own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from emu.comm.arrays import Words
from emu.comm.errors import CommError
from emu.comm.hosts.port import Port
from emu.comm.hosts.words import COUNT, DONE, KIND, NBYTES, PUSH, RESULT, ROWS, SLOT_DATA, SLOTS
from emu.comm.memory.stop import check_stopped
from emu.comm.sync import signals

Row = tuple[int, int, int]
"""Memory of this host's segment that is copied to the same place elsewhere: offset in the file, bytes, host or -1 for all."""

_PAUSE_S, _LONG_PAUSE_S = 20e-6, 1e-3


class SidePort(Port):
    """The port of a PE's servers, of which there is one for each group that has them."""

    def push(
        self,
        news: Mapping[int, int],
        hosts: Sequence[int],
        rows: Sequence[Row] = (),
        payload: Words | None = None,
    ) -> None:
        """Copy memory to other hosts, and tell them something behind that; nobody waits for it.

        Args:
            news: Words of the record that tells it.
            hosts: Who is told.
            rows: What is copied before; it must stay as it is until all of them have used it.
            payload: Words that are stored at the offset that ``news`` names; they are copied at once.

        Raises:
            CommError: There are more rows than a slot can hold.
            StoppedError: The world was stopped.
        """
        flat = [*hosts, *(word for row in rows for word in row)]
        nbytes = 0 if payload is None else payload.nbytes
        needed = 8 * len(flat) + nbytes
        if needed > SLOT_DATA:  # 1024 PEs with a row each take a fifth
            raise CommError(
                f"rows and payload of a push must be described in {SLOT_DATA} bytes, but {len(rows)} rows take {needed}"
            )
        with self._threads:
            number = self._take()
            room = self._data[number % SLOTS].view(np.int64)
            room[: len(flat)] = flat
            if payload is not None:
                room[len(flat) : len(flat) + payload.size] = payload
            words = {KIND: PUSH, COUNT: len(hosts), ROWS: len(rows), NBYTES: nbytes}
            self._post({**news, **words})

    def _await(self, number: int, what: str) -> int:
        """Look until a request was answered; return its result."""
        slot = number % SLOTS
        pause = _PAUSE_S
        while self._words[DONE + 8 * slot] <= number:
            check_stopped(self._segment)
            time.sleep(pause)
            pause = min(2 * pause, _LONG_PAUSE_S)
        signals.full_fence()
        self._open.pop(number, None)
        return int(self._records[slot][RESULT])


def side_port(port: Port) -> SidePort:
    """Return the port of the servers beside that of a program; there is one for all groups."""
    return cast("SidePort", port.beside(SidePort))
