"""``while`` loops of kernels that run as Python: what their conditions read, and how waits are reported.

A loop whose condition depends on memory waits for as long as it reads the same values. As compiled kernels do, it
says so to the launcher of the world, which names it when every PE waits, and ends when the world is stopped.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from emu.tile import ops
from emu.tile.cpu.reports import Loop, Read
from emu.tile.cpu.run import watching
from emu.tile.cpu.run.spins import Spin, where
from emu.tile.ir import Operation, Value
from emu.tile.types import DType, Pointer, Tile, element_of

Array = np.ndarray[Any, Any]
Triple = tuple[int, int, int]

_ASK_S = 0.02
_MOST_READS = 8


class Seen(NamedTuple):
    """A value that came from memory.

    Attributes:
        code: Code of the function that read it.
        instruction: Offset of the instruction in it.
        dtype: Its name; empty of a pointer.
        address: Where it was read; 0 of what was computed from a tile.
        bits: What was there.
    """

    code: CodeType
    instruction: int
    dtype: str
    address: int
    bits: int

    @property
    def location(self) -> str:
        """File, line and column."""
        positions = itertools.islice(self.code.co_positions(), self.instruction // 2, None)
        line, _, column, _ = next(positions, (None, None, None, None))
        return f"{self.code.co_filename}:{line or 0}:{(column or 0) + 1}"


@dataclass(eq=False)
class Described:
    """The kernel that runs, as reports name it; has what ``spins.KernelInfo`` wants.

    Attributes:
        name: Its name.
        place: File and line where it begins.
        parameters: Name and type of each argument; types of pointers begin with ``ptr``.
        bases: Addresses of the arguments that are pointers, 0 of others.
        loops: Loops that were reported.
    """

    name: str
    place: str
    parameters: tuple[tuple[str, str], ...]
    bases: tuple[int, ...]
    loops: tuple[Loop, ...] = ()

    def number_of(self, loop: Loop) -> int:
        """Return the number of a loop, from 1."""
        if loop not in self.loops:
            self.loops = (*self.loops, loop)
        return self.loops.index(loop) + 1


@dataclass
class Spins:
    """The ``while`` loops that a program is in.

    Attributes:
        kernel: The kernel.
        program: Number of the program.
        grid: Extents of the grid.
    """

    kernel: Described
    program: Triple
    grid: Triple
    _open: list[tuple[str, tuple[Seen, ...]]] = field(default_factory=list)
    _asked: float = 0.0
    _last: Spin | None = None

    @property
    def is_looping(self) -> bool:
        """Whether the program is in a ``while`` loop, so that what it reads is of interest."""
        return bool(self._open)

    def goes_round(self, location: str, reads: tuple[Seen, ...], goes_on: bool) -> None:
        """Note that a loop has evaluated its condition.

        Args:
            location: The loop's.
            reads: What the condition depends on.
            goes_on: Whether the loop goes on.

        Raises:
            StoppedError: The world was stopped.
        """
        # What was entered inside ended by an exception, or by an early return.
        while any(o[0] == location for o in self._open) and self._open[-1][0] != location:
            self._open.pop()
        if self._open and self._open[-1][0] == location:
            self._open.pop()
        elif goes_on:
            self._asked = time.monotonic()
        if goes_on:
            self._open.append((location, reads))
            self._poll()
        elif self._last is not None:
            self._last = None
            watching.publish([])

    def _poll(self) -> None:
        now = time.monotonic()
        if now - self._asked < _ASK_S:
            return
        self._asked = now
        watching.check_stopped()
        spin, before = self._spin(), self._last
        if spin.seen and before is not None and spin.reads_as(before):
            spin.same, spin.since = True, before.since
        self._last = spin
        watching.publish([spin])

    def _spin(self) -> Spin:
        location, reads = self._open[-1]
        reads = reads[:_MOST_READS]
        described = tuple([Read(r.location, r.dtype, bool(r.address)) for r in reads])
        number = self.kernel.number_of(Loop(location, described))
        seen = tuple([number for r in reads for number in (r.address, r.bits)])
        return Spin(self.kernel, number, self.program, self.grid, seen, self.kernel.bases)

    def describe(self) -> str:
        """Return a text with kernel, program, and the loop that it is in with what that waits for."""
        if self._open:
            return self._spin().describe()
        return where(self.kernel, 0, self.program, self.grid)

    def leave(self) -> None:
        """Forget all loops: the program has ended."""
        self._open.clear()
        if self._last is not None:
            self._last = None
            watching.publish([])


def reads_of(
    operation: Operation, results: Sequence[Array], operands: Sequence[Value]
) -> tuple[Seen, ...]:
    """Return what the results of an operation depend on of memory; one of tiles has no address."""
    if operation.code in ops.READS and operation.results:
        address = np.asarray(getattr(operands[0], "array", 0))
        return (_seen(operation.results[0], results[0], int(address) if not address.ndim else 0),)
    found: dict[Seen, None] = {}
    for value in operands:
        found.update(dict.fromkeys(getattr(value, "reads", ())))
    of_tiles = any(isinstance(v.type, Tile) for v in operands)
    if found and of_tiles and not any(isinstance(v.type, Tile) for v in operation.results):
        return (_seen(operation.results[0], results[0], 0),)  # a number made of a tile
    return tuple(found)[:_MOST_READS]


def _seen(value: Value, array: Array, address: int) -> Seen:
    element = element_of(value.type)
    frame = _program_frame()
    single = np.asarray(array)
    bits = 0
    if single.size == 1:
        bits = int(single.reshape(1).view(f"u{single.dtype.itemsize}")[0])
    name = "" if isinstance(element, Pointer) else element.name
    assert isinstance(element, Pointer | DType)
    return Seen(frame.f_code, frame.f_lasti, name, address, bits)


def _program_frame() -> FrameType:
    """Return the innermost frame that is the program's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame


@functools.cache
def _is_own(module: object) -> bool:
    return str(module).partition(".")[0] == "emu"
