"""The trace of a World over several hosts: each host records its own PEs, and the first puts the parts together in the end.

Each host has a clock of its own. What another one's shows when the first's shows a certain time is measured before the PEs start, by
messages to and fro: the fastest of some says it to half of the time that it took.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emu.comm.world import recording

_logger = logging.getLogger("emu.trace")
_ROUNDS = 16
_TAG = 7


def part_of(files: Sequence[str], host: int) -> tuple[str, ...]:
    """Return the file that a host records to, beside the first of those that are wanted; none without any."""
    return (f"{files[0]}.host{host}.emutrace",) if files else ()


def clock_offsets(mpi: Any) -> list[int]:
    """Return by how many nanoseconds each host's clock is before the first's; every host calls. Others than the first get no list."""
    world = mpi.COMM_WORLD
    here, n_hosts = int(world.Get_rank()), int(world.Get_size())
    if here:
        for _ in range(_ROUNDS):
            world.recv(source=0, tag=_TAG)
            world.send(time.monotonic_ns(), dest=0, tag=_TAG)
        return []
    found = [0]
    for host in range(1, n_hosts):
        rounds = []
        for _ in range(_ROUNDS):
            begun = time.monotonic_ns()
            world.send(None, dest=host, tag=_TAG)
            there = world.recv(source=host, tag=_TAG)
            ended = time.monotonic_ns()
            rounds.append((ended - begun, there - (begun + ended) // 2))
        found.append(min(rounds)[1])
    return found


def collect(mpi: Any, files: Sequence[str], offsets: Sequence[int], pes_per_host: int) -> None:
    """Write the files that are wanted, on the first host, of the parts of all; every host calls.

    Where that fails the parts stay, and a log says so.
    """
    world = mpi.COMM_WORLD
    here = int(world.Get_rank())
    part = Path(part_of(files, here)[0])
    parts = world.gather(part.read_bytes() if part.exists() else b"", 0)
    is_written = False
    if here == 0:
        try:
            recording.load_room().merge(parts, offsets, files, pes_per_host)
            is_written = True
        except Exception as error:  # noqa: BLE001 - whatever it is, others must not wait
            _logger.warning("the parts of the trace are left as they are (%s): %s", part, error)
    if world.bcast(is_written, 0):
        part.unlink(missing_ok=True)
