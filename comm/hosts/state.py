"""The words that the compiled part of an agent works with (:mod:`emu.comm.hosts.serving`), and small things on them.

They lie in one int64 array, so that compiled code takes one address. What is there once for each host, PE or port stands in
arrays of its own, whose addresses stand here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.hosts.words import PORT_DATA, PORT_RECORDS, RECORD_BYTES, SLOT_DATA, SLOTS
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit

BATCH_BYTES = 128 << 10
"""Largest batch."""
BATCH, PAYLOAD = 1, 2
"""MPI's tags."""
EARLY = 64
"""Arrivals at barriers that are kept until the barrier has come to their generation."""
ROOMS = 4
"""Large payloads that wait for being handled at one time."""
ARRIVING = 32
"""Large payloads that are received at one time."""
APPENDED = 16
"""Batches of one host that are looked at ahead before those of others are."""
RECEIVED_BYTES = 2 * BATCH_BYTES
"""Memory for a batch, with room for some that are appended."""
SLACK = 8
"""Batches and messages for which there must be room before anything is begun: what one record can need."""

NOTHING_TO_DO, WORKED, REQUEST, RECORD, ROOM, IDLE, LATE, FAILED = range(8)
"""What :func:`emu.comm.hosts.serving.serve` and its parts return: the first two among each other; then a request, or a
record, that Python has to do; memory is needed; nothing to do for a while; it is time to look after other things; MPI failed."""


@jit()
def peek(address: int) -> Any:
    """Load a word that only this thread writes."""
    return carray(as_pointer(address), (1,), np.int64)[0]


@jit()
def poke(address: int, value: int) -> None:
    """Store a word that only this thread reads, or somebody who is told behind it."""
    carray(as_pointer(address), (1,), np.int64)[0] = value


@jit()
def slot_at(port: int, number: int) -> Any:
    """Return the address of the record of a request in a port."""
    return port + PORT_RECORDS + number % SLOTS * RECORD_BYTES


@jit()
def data_at(port: int, number: int) -> Any:
    """Return the address of the data of a request in a port."""
    return port + PORT_DATA + number % SLOTS * SLOT_DATA


@jit()
def at(state: int, place: int) -> Any:
    """Load a word of the state."""
    return peek(state + 8 * place)


@jit()
def put_at(state: int, place: int, value: int) -> None:
    """Store a word of the state."""
    poke(state + 8 * place, value)


@jit()
def row(state: int, place: int, index: int) -> Any:
    """Load a word of an array whose address stands in the state."""
    return peek(at(state, place) + 8 * index)


@jit()
def put_row(state: int, place: int, index: int, value: int) -> None:
    """Store a word of an array whose address stands in the state."""
    poke(at(state, place) + 8 * index, value)


@jit()
def add_row(state: int, place: int, index: int, more: int) -> None:
    """Add to a word of an array whose address stands in the state."""
    put_row(state, place, index, row(state, place, index) + more)
