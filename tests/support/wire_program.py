"""An agent's connections to itself: what is sent comes back whole, in its order, however much is on its way at once."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from emu.comm.hosts.places import Places
from emu.comm.hosts.state import IDLE, LATE, RECORD, SLACK
from emu.comm.hosts.wire import Wire
from emu.comm.hosts.words import (
    ASKER,
    INLINE_BYTES,
    KIND,
    NBYTES,
    NEWS,
    PORT_BYTES,
    RESULT,
    empty_words,
)
from emu.comm.layout import Layout
from emu.comm.process.mpi import initialise

SIZES = (0, 1, 7, 8, 255, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 100_000, 1 << 20)


def make_wire(mpi: Any) -> Wire:
    """Return the wire of host 1, whose communicator has itself as host 0."""
    segment: Any = SimpleNamespace(address=0, layout=Layout(n_pes=2, heap_bytes=1 << 20))
    ports = np.zeros((2, PORT_BYTES), np.uint8)
    places = Places((1, 1), 1, ("a", "b"))
    return Wire(mpi, mpi.COMM_SELF, segment, places, ports, {0: 0}, 0)


def content(number: int, nbytes: int) -> Any:
    """Return the payload of a record."""
    return np.random.default_rng(number).integers(0, 256, nbytes, np.uint8)


def take_all(wire: Wire, sizes: list[int]) -> None:
    """Check that records of these sizes come, in this order."""
    end = time.monotonic() + 60
    for number, nbytes in enumerate(sizes):
        found = LATE
        while found != RECORD and time.monotonic() < end:
            found = wire.serve(1_000_000)
            assert found in (RECORD, LATE, IDLE), found
        record = wire.record
        assert (record.host, record.words[RESULT]) == (0, number)
        assert record.words[NBYTES] == nbytes
        got = np.zeros(0, np.uint8) if record.payload is None else record.payload
        assert (got == content(number, nbytes)).all(), (number, nbytes)


def send(wire: Wire, number: int, nbytes: int) -> Any:
    """Send one record; return its payload, which must live until it has come."""
    words, payload = empty_words(), content(number, nbytes)
    words[KIND], words[RESULT], words[ASKER] = NEWS, number, 1
    wire.send(0, words, payload)
    words[:] = -1  # it was copied
    if nbytes <= INLINE_BYTES:
        payload[:] = 0  # so was this
    return payload


def main() -> None:
    """Send rows of records, each whole before anything is received."""
    mpi = initialise()
    draw = np.random.default_rng(5)
    for count in (1, 5, 40):
        wire = make_wire(mpi)
        sizes = [int(size) for size in draw.choice(SIZES, count)]
        kept = [send(wire, number, nbytes) for number, nbytes in enumerate(sizes)]
        assert wire.is_sending
        take_all(wire, sizes)
        assert len(kept) == count
        assert wire.sent.tolist() == [0, count]
        for _ in range(100):
            if wire.serve(1000) == IDLE and not wire.is_sending:
                break
        assert not wire.is_sending
        assert not wire.is_receiving
        wire.close()
    # More batches than there is memory for at first.
    wire = make_wire(mpi)
    sizes = [INLINE_BYTES] * (8 * 5 * SLACK)
    for number, nbytes in enumerate(sizes):
        send(wire, number, nbytes)
    take_all(wire, sizes)
    print("all have come")


if __name__ == "__main__":
    main()
