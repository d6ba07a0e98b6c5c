"""Bounds of accesses: launches of kernels that check every address, and what they report."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.tile.passes.check_bounds import (
    BOUNDS,
    CAPACITY,
    HITS,
    RECORD_WORDS,
    TABLE,
    TABLE_STEPS,
    Access,
)
from emu.triton.runtime import arguments as kinds
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Launch
from emu.triton.runtime.errors import BadAccess, OutOfBoundsError
from emu.triton.runtime.places import chain_of, lane_text, places
from emu.triton.runtime.storages import END, Storage, find_storage, live_storages, merged

_RECORDS = {"bounds": 16, "bounds:all": 4096}

Argument = tuple[str, bool, tuple[int | str, ...]]
"""An argument of the executable: its name, whether it is a pointer, and its path in the arguments by name."""


class BoundsChecker:
    """Launcher of a kernel that was instrumented.

    Args:
        kernel: Its name.
        mode: ``"bounds"`` or ``"bounds:all"``.
        accesses: Its accesses by number.
        arguments: Arguments of the executable, in order.
        more: Number of arguments that follow them, of other checks.
    """

    def __init__(
        self,
        kernel: str,
        mode: str,
        accesses: Sequence[Access],
        arguments: Sequence[Argument],
        more: int = 0,
    ) -> None:
        self._kernel = kernel
        self._mode = mode
        self._accesses = accesses
        self._arguments = arguments
        self._needs_table = any(a.argument is None for a in accesses)
        self._count = len(arguments) + more
        # What a launch does is written out for the frequent case: it takes longer than a small kernel does.
        self._pointers = [
            (2 * n, str(name), path)
            for n, (_, is_pointer, (name, *path)) in enumerate(arguments)
            if is_pointer
        ]
        self._any_address = [0, END] * self._count
        self._pack = struct.Struct(f"{2 * self._count}q").pack_into
        self._idle: list[_Facts] = []

    def launch(
        self,
        launch: Launch,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
    ) -> None:
        """Run the kernel.

        Args:
            launch: Runs the executable.
            call: Extents of the grid and the packed values.
            given: Arguments by the names of the parameters; None: their memory is not known, and not checked.

        Raises:
            OutOfBoundsError: An address was outside.
        """
        x, y, z, values = call
        words = self._any_address.copy()
        if given is not None:
            self._fill(words, given)
        try:
            facts = self._idle.pop()
        except IndexError:
            facts = _Facts(self._count, _RECORDS[self._mode])
        self._pack(facts.memory, 8 * BOUNDS, *words)
        if self._needs_table:
            facts.set_table(
                [*live_storages(), *(s for s in self._storages(words) if s is not None)]
            )
        failure: Exception | None = None
        try:
            launch(x, y, z, (*values, facts.address))
        except Exception as error:
            if not facts.memory[HITS] or self._mode != "bounds":
                raise
            failure = error  # the assertion that stopped the kernel: the report says more
        if facts.memory[HITS]:
            del failure
            tensors = [value_of(given, argument) for argument in self._arguments]
            report = _Report(
                self._kernel, self._arguments, tensors, self._storages(words), (x, y, z)
            )
            raise self._error(facts, report) from None
        self._idle.append(facts)

    def _fill(self, words: list[int], given: Mapping[str, object]) -> None:
        """Write the bounds of each pointer's memory; of one that is not known any address is taken."""
        tensors = kinds.tensors
        for at, name, path in self._pointers:
            value: Any = given[name]
            for step in path:
                value = getattr(value, step) if isinstance(step, str) else value[step]
            kind: type = value.__class__
            if kind in tensors:
                storage = value.untyped_storage()
                if storage.resizable():  # others may be a view of an array
                    words[at] = start = storage.data_ptr()
                    words[at + 1] = start + storage.nbytes()
                    continue
            found = find_storage(value)
            if found is not None:
                words[at], words[at + 1] = found.start, found.end

    def _storages(self, words: Sequence[int]) -> list[Storage | None]:
        """Return the storages that the words are of; None for arguments whose memory is not known."""
        pairs = zip(words[::2], words[1::2], strict=True)
        return [None if end == END else Storage(start, end) for start, end in pairs]

    def _error(self, facts: _Facts, report: _Report) -> OutOfBoundsError:
        found: dict[int, BadAccess] = {}
        records = sorted(facts.records(), key=lambda r: (r[0], r[3], r[2], r[1]))
        if self._mode == "bounds":
            records = facts.records()[:1]
        for number, x, y, z, lane, address in records:
            if number not in found:
                access = self._accesses[number]
                found[number] = report.describe(access, (x, y, z), lane, address)
        return OutOfBoundsError(tuple(found.values()), facts.memory[HITS])


class _Facts:
    """The facts of one launch, in memory that the kernel reads and writes.

    Attributes:
        memory: Their words, which are read faster here than in an array.
        address: Their address.
    """

    def __init__(self, arguments: int, records: int) -> None:
        self._first = BOUNDS + 2 * arguments
        self._words = np.zeros(self._first + RECORD_WORDS * records, np.int64)
        self._words[CAPACITY] = records
        self._table = np.zeros(0, np.int64)
        self.memory: memoryview[int] = self._words.data
        self.address = int(self._words.__array_interface__["data"][0])

    def set_table(self, storages: Sequence[Storage]) -> None:
        """Write the table of all memory that is allocated."""
        entries = [Storage(0, 0), *merged(storages)]
        steps = math.ceil(math.log2(len(entries))) if len(entries) > 1 else 0
        self._table = np.full((1 << steps, 2), END, np.int64)
        self._table[: len(entries)] = [(s.start, s.end) for s in entries]
        self._words[TABLE], self._words[TABLE_STEPS] = self._table.ctypes.data, steps

    def records(self) -> list[tuple[int, ...]]:
        """Return number, program x, y, z, lane and address of each record."""
        count = min(int(self._words[HITS]), int(self._words[CAPACITY]))
        rows = self._words[self._first :].reshape(-1, RECORD_WORDS)[:count, :6]
        return [tuple(map(int, row)) for row in rows]


def value_of(given: Mapping[str, object] | None, argument: Argument) -> Any:
    """Return the tensor of an argument of a launch; None if it is none, or not known."""
    _, is_pointer, (name, *path) = argument
    if given is None or not is_pointer:
        return None
    value: Any = given[str(name)]
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


@dataclass(frozen=True)
class _Report:
    """What reports of one launch say besides the access."""

    kernel: str
    arguments: Sequence[Argument]
    tensors: Sequence[Any]
    storages: Sequence[Storage | None]
    grid: tuple[int, ...]

    def describe(
        self, access: Access, program: tuple[int, int, int], lane: int, address: int
    ) -> BadAccess:
        """Return the report of an access."""
        address &= (1 << 64) - 1
        which = access.argument
        if which is None:
            which = self._nearest(address)
        past = before = None
        name = None if access.argument is None else self.arguments[access.argument][0]
        where = "no tensor is known"
        storage = None if which is None else self.storages[which]
        if which is not None and storage is not None:
            if address < storage.start:
                before = storage.start - address
            else:
                past = address - storage.end
            where = self._where(which, storage, access, address)
        chain = chain_of(access.location)
        file, line, column, _ = chain[-1] if chain else ("", 0, 0, "")
        indices = (
            tuple(int(i) for i in np.unravel_index(lane, access.shape)) if access.shape else ()
        )
        text = "\n".join(
            [
                *places(chain),
                f"{access.verb} of {access.element} out of bounds in kernel {self.kernel}, "
                + f"program {program} of {self.grid}, {_lane(access, lane, indices)}",
                f"  address {address:#x}: {where}",
                *self._tensor(which, access.argument is None),
            ]
        )
        return BadAccess(
            *(self.kernel, access.verb, file, line, column, program, indices, address),
            *(name, past, before, text),
        )

    def _nearest(self, address: int) -> int | None:
        def distance(number: int) -> int:
            storage = self.storages[number]
            assert storage is not None
            return max(storage.start - address, address - storage.end, 0)

        known = [n for n, s in enumerate(self.storages) if s is not None]
        return min(known, key=distance, default=None)

    def _where(self, which: int, storage: Storage, access: Access, address: int) -> str:
        name = self.arguments[which][0]
        origin = _address(self.tensors[which])
        if address < storage.start:
            distance, side = storage.start - address, f"before the start of {name}"
        elif address >= storage.end:
            distance, side = address - storage.end, f"past the end of {name}"
        else:
            return f"an element that begins {storage.end - address} bytes before the end of {name}'s memory"
        elements = f"{distance // access.size} elements" if distance % access.size == 0 else ""
        text = f"{distance} bytes" + (f" ({elements})" if elements else "")
        if not distance:
            text, side = "right", f"behind the end of {name}"
        if access.argument is None or origin is None or (address - origin) % access.size:
            return f"{text} {side}'s memory"
        return f"{text} {side}'s memory; it is {name}[{(address - origin) // access.size}]"

    def _tensor(self, which: int | None, is_guess: bool) -> list[str]:
        if which is None:
            return []
        name, tensor, storage = self.arguments[which][0], self.tensors[which], self.storages[which]
        assert storage is not None
        lead = "the nearest argument is " if is_guess else ""
        shape, strides = getattr(tensor, "shape", None), _strides(tensor)
        facts = [str(getattr(tensor, "dtype", ""))]
        if shape is not None:
            facts.append(f"shape {tuple(shape)}")
        if strides is not None:
            facts.append(f"strides {strides}")
        span = (
            f"memory {storage.start:#x} to {storage.end:#x} ({storage.end - storage.start} bytes)"
        )
        return [f"  {lead}{name}: {', '.join(f for f in facts if f)}, {span}"]


def _lane(access: Access, lane: int, indices: tuple[int, ...]) -> str:
    masked = "its mask is true" if access.is_masked else "no mask"
    return f"{lane_text(access.shape, lane, indices)}, {masked}"


def _address(tensor: Any) -> int | None:
    if isinstance(tensor, np.ndarray):
        return int(tensor.__array_interface__["data"][0])
    return int(tensor.data_ptr()) if hasattr(tensor, "data_ptr") else None


def _strides(tensor: Any) -> tuple[int, ...] | None:
    """Return strides in elements."""
    if isinstance(tensor, np.ndarray):
        return tuple(s // tensor.itemsize for s in tensor.strides)
    return tuple(tensor.stride()) if hasattr(tensor, "stride") else None
