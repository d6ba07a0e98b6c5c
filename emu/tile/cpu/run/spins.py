"""Loops that have been running for long: where they are and what they wait for."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from emu.tile.cpu.reports import Loop, Read
from emu.tile.cpu.run.symmetric import barrier_of, place_of
from emu.tile.types import DTYPES

_ADDRESS = (1 << 64) - 1

_MAX_DISTANCE = 1 << 40
"""An address at most this many bytes past a pointer argument is reported as an element of it."""


class KernelInfo(Protocol):
    """The part of a kernel that messages about it need; see :class:`emu.tile.cpu.Kernel`."""

    name: str
    place: str
    parameters: tuple[tuple[str, str], ...]
    loops: tuple[Loop, ...]


@dataclass
class Spin:
    """A loop that has been running for long.

    Attributes:
        kernel: Kernel that contains the loop.
        loop: Number of the loop; 0 for the loop over programs.
        program: Indices x, y, z of the program.
        grid: Extents of the grid.
        seen: Pairs of an address and the bits read there, as of the last poll.
        bases: Packed arguments of the launch.
        same: Whether the poll before saw the same loop read the same.
        since: When what is read changed last, by ``time.monotonic``.
    """

    kernel: KernelInfo
    loop: int
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    seen: tuple[int, ...]
    bases: tuple[int, ...]
    same: bool = False
    since: float = field(default_factory=time.monotonic)

    def reads_as(self, before: Spin) -> bool:
        """Return whether this is the same loop of the same program and it still reads the same."""
        mine = self.loop, self.program, self.seen
        same = mine == (before.loop, before.program, before.seen)
        return same and self.kernel is before.kernel

    def describe(self) -> str:
        """Return a text with the place of the loop and what it waits for."""
        waits = self.waits()
        return self.where() + (f"; it waits for {waits}" if waits else "")

    def where(self) -> str:
        """Return a text with the place of the loop."""
        return where(self.kernel, self.loop, self.program, self.grid)

    def waits(self) -> str:
        """Return a text with what the loop reads; empty if it waits for nothing."""
        texts = [
            _describe_read(self.kernel, read, address, bits, self.bases)
            for read, address, bits in self._awaited()
        ]
        return " and ".join(texts)

    def symmetric_words(self) -> list[tuple[int, int, int, int]]:
        """Return what it waits for in symmetric memory: PE, place in its heap, bytes, and the bits that are there."""
        found = []
        for read, address, bits in self._awaited():
            place = place_of(address & _ADDRESS) if read.by_address else None
            if place is not None:
                found.append((*place, _size(read), bits))
        return found

    def barrier(self) -> dict[str, int | str] | None:
        """Return what the launcher must know of the barrier that it waits in; None: it waits for something else, or for more."""
        awaited = self._awaited()
        if len(awaited) != 1 or not awaited[0][0].by_address:
            return None
        _, address, generation = awaited[0]
        found = barrier_of(address & _ADDRESS)
        if found is None:
            return None
        line = self.kernel.loops[self.loop - 1].location.rpartition(":")[0]
        known: dict[str, int | str] = {"index": found.group, "generation": generation}
        return {**known, "group": found.name, "at": line}

    def _awaited(self) -> list[tuple[Read, int, int]]:
        """Return the reads of the loop, each with its address and the bits there.

        Addresses of symmetric memory that it reads on the way to what it waits for, such as a table of the heaps' first
        addresses, are left out.
        """
        if not self.loop:
            return []
        reads = self.kernel.loops[self.loop - 1].reads
        found = [
            (read, self.seen[2 * number], self.seen[2 * number + 1])
            for number, read in enumerate(reads)
        ]
        direct = [each for each in found if not _is_way(*each)]
        return direct or found


def _is_way(read: Read, address: int, bits: int) -> bool:
    """Return whether what was read is an address in symmetric memory, read from elsewhere."""
    if not read.by_address or _size(read) != 8 or place_of(bits & _ADDRESS) is None:
        return False
    return place_of(address & _ADDRESS) is None


def _size(read: Read) -> int:
    return DTYPES[read.dtype].bytes if read.dtype else 8


def where(
    kernel: KernelInfo,
    loop: int,
    program: tuple[int, int, int],
    grid: tuple[int, int, int] | None,
) -> str:
    """Return a text that names a kernel, one of its programs and a loop in it."""
    at = f" ({kernel.place})" if kernel.place else ""
    of = f" of {grid}" if grid else ""
    inside = f", in the loop at {kernel.loops[loop - 1].location}" if loop else ""
    return f"kernel {kernel.name}{at}, program {program}{of}{inside}"


def _describe_read(
    kernel: KernelInfo, read: Read, address: int, bits: int, bases: tuple[int, ...]
) -> str:
    there = _value(read.dtype, bits)
    if not read.by_address:
        return f"what is read at {read.location} (now {there})"
    address &= _ADDRESS
    barrier = barrier_of(address)
    if barrier is not None:
        return str(barrier)
    size = _size(read)
    name = f"address {address:#x}"
    # The nearest pointer argument at or below the address is the likeliest owner of the memory.
    found = [
        (address - base, argument)
        for (argument, type_), base in zip(kernel.parameters, bases, strict=True)
        if type_.startswith("ptr") and 0 <= address - base < _MAX_DISTANCE
    ]
    if found:
        distance, argument = min(found)
        name = f"{argument}[{distance // size}] ({read.dtype or 'pointer'} at {address:#x})"
    place = place_of(address)
    if place is not None:
        name += f" of PE {place.pe}"
    return f"{name}, read at {read.location} (there: {there})"


def _value(dtype: str, bits: int) -> str:
    found = DTYPES[dtype].numpy if dtype else None
    if found is None or found.isbuiltin != 1:  # a pointer, or a dtype that is not NumPy's own
        return f"{bits & _ADDRESS:#x}"
    return str(np.frombuffer(struct.pack("q", bits), found, 1)[0].item())
