"""Unwritten memory: launches of kernels that follow what they read of it, and what they report."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emu.kernels.core import shadows
from emu.tile.passes.check_bounds import Access
from emu.tile.passes.check_uninit import (
    ADDRESS_BITS,
    CAPACITY,
    HITS,
    IS_SHARED,
    PATTERN,
    RECORD_WORDS,
    SHADOW_WORDS,
    SHADOWS,
    TABLE,
    TABLE_STEPS,
    Use,
)
from emu.triton.errors import UninitialisedError, UninitialisedRead
from emu.triton.runtime.places import chain_of, lane_text, places
from emu.triton.runtime.storages import END, Storage

_RECORDS = 16


class UninitChecker:
    """Facts and reports of the launches of a kernel that was instrumented by ``check_uninit``.

    Args:
        kernel: Its name.
        loads: Its loads by number.
        uses: Its uses by number.
        names: Names of the arguments of the executable.
    """

    def __init__(
        self, kernel: str, loads: Sequence[Access], uses: Sequence[Use], names: Sequence[str]
    ) -> None:
        self._kernel = kernel
        self._loads = loads
        self._uses = uses
        self._names = names
        self._needs_table = any(a.argument is None for a in loads)

    def prepare(self, storages: Sequence[Storage | None]) -> UninitLaunch:
        """Return the facts of a launch.

        Args:
            storages: Memory of each argument of the executable; None if it is none, or not known.
        """
        known = []
        for storage in storages:
            found = None if storage is None else shadows.find(storage.start, storage.end)
            known.append(found if found is not None and _is_needed(found) else None)
        others = []
        if self._needs_table:
            others = [s for s in shadows.alive() if s in known or _is_needed(s)]
        return UninitLaunch(known, others)

    def error(self, launch: UninitLaunch, grid: tuple[int, ...]) -> UninitialisedError | None:
        """Return what a launch has found; None if nothing."""
        records = launch.records()
        if not records:
            return None
        number, x, y, z, lane, origin = records[0]
        return UninitialisedError(self._describe(launch, number, (x, y, z), grid, lane, origin))

    def _describe(
        self,
        launch: UninitLaunch,
        number: int,
        program: tuple[int, int, int],
        grid: tuple[int, ...],
        lane: int,
        origin: int,
    ) -> UninitialisedRead:
        use = self._uses[number]
        load = self._loads[(origin >> (ADDRESS_BITS + 1)) - 1]
        address = origin & (IS_SHARED - 1)
        shadow = launch.find(address)
        name = None if load.argument is None else self._names[load.argument]
        indices = tuple(int(i) for i in np.unravel_index(lane, use.shape)) if use.shape else ()
        used, read = chain_of(use.location), chain_of(load.location)
        file, line, column, _ = used[-1] if used else ("", 0, 0, "")
        read_file, read_line = read[-1][:2] if read else ("", 0)
        site = "" if shadow is None else shadow.site
        where = f"address {address:#x}"
        if shadow is not None:
            at = address - shadow.start
            owner = "memory" if name is None else f"{name}'s memory"
            where += f": byte {at} of the {shadow.end - shadow.start} of {owner}, element {at // load.size}"
        text = "\n".join(
            [
                *places(used),
                f"{use.what} depends on memory that was never written, in kernel {self._kernel}, "
                + f"program {program} of {grid}, {lane_text(use.shape, lane, indices)}",
                f"  {load.verb} of {load.element} at {read_file}:{read_line}, {where}",
                f"  allocated, and not written there, at {site or 'a place that is not known'}",
            ]
        )
        return UninitialisedRead(
            *(self._kernel, use.what, file, line, column, read_file, read_line),
            *(site, program, indices, address, name, text),
        )


def _is_needed(shadow: shadows.Shadow) -> bool:
    """Return whether anything is unwritten; a shadow of memory that is full is forgotten."""
    if shadow.refresh():
        return True
    shadows.forget(shadow.start)
    return False


class UninitLaunch:
    """The facts of one launch, in memory that the kernel reads and writes.

    Args:
        known: Shadow of each argument's memory; None where everything is written.
        others: All shadows, for pointers that come from memory.

    Attributes:
        address: Address of the facts.
    """

    def __init__(
        self, known: Sequence[shadows.Shadow | None], others: Sequence[shadows.Shadow]
    ) -> None:
        self._shadows = {s for s in (*known, *others) if s is not None}
        self._first = SHADOWS + SHADOW_WORDS * len(known)
        self._words = np.zeros(self._first + RECORD_WORDS * _RECORDS, np.int64)
        self._words[CAPACITY], self._words[PATTERN] = _RECORDS, shadows.PATTERN
        if known:
            rows = [_row(s) for s in known]
            self._words[SHADOWS : self._first] = np.array(rows, np.int64).ravel()
        ordered = sorted(others, key=lambda s: s.start)
        steps = math.ceil(math.log2(len(ordered) + 1)) if ordered else 0
        self._table = np.array([_row(None)] * (1 << steps), np.int64)
        self._table[:, 0] = END
        self._table[0, 0] = 0
        for n, shadow in enumerate(ordered, 1):
            self._table[n] = _row(shadow)
        self._words[TABLE], self._words[TABLE_STEPS] = self._table.ctypes.data, steps
        self.address = int(self._words.__array_interface__["data"][0])

    @property
    def has_hits(self) -> bool:
        """Whether a use was found."""
        return bool(self._words[HITS])

    def records(self) -> list[tuple[int, ...]]:
        """Return number of the use, program x, y, z, lane and origin of each record."""
        count = min(int(self._words[HITS]), _RECORDS)
        rows = self._words[self._first :].reshape(-1, RECORD_WORDS)[:count, :6]
        return [tuple(map(int, row)) for row in rows]

    def find(self, address: int) -> shadows.Shadow | None:
        """Return the shadow of an address."""
        return next((s for s in self._shadows if s.start <= address < s.end), None)


def _row(shadow: shadows.Shadow | None) -> tuple[int, int, int, int]:
    if shadow is None:
        return END, 0, 0, 0
    return shadow.start, shadow.end, shadow.distance, IS_SHARED if shadow.is_shared else 0
