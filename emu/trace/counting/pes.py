"""Counts of a run on PEs: each PE leaves a file, the launcher reads them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from emu.comm.world.world import World
from emu.tile.counting.counts import Counts
from emu.tile.counting.state import Counting, begin
from emu.trace.counting import traffic
from emu.trace.counting.traffic import Traffic


class _Sum:
    """The counts of a kernel; of counts that come again and again it is noted how often."""

    __slots__ = ("_last", "_times", "_total")

    def __init__(self, first: Counts) -> None:
        self._total: Counts | None = None
        self._last = first
        self._times = 1

    def add(self, counts: Counts) -> None:
        if counts is self._last:
            self._times += 1
            return
        self._total = self.total
        self._last, self._times = counts, 1

    @property
    def total(self) -> Counts:
        last = _multiplied(self._last, self._times)
        return last if self._total is None else self._total + last


def _multiplied(counts: Counts, times: int) -> Counts:
    """Return the sum of equal counts, in steps that double."""
    if times == 1:
        return counts
    half = _multiplied(counts, times // 2)
    return half + half + counts if times % 2 else half + half


class Totals:
    """Sums of counts by kernel, in the order in which kernels were launched first."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], _Sum] = {}

    def __call__(self, counts: Counts) -> None:
        """Add the counts of a launch."""
        key = counts.name, counts.file, counts.line
        before = self._found.get(key)
        if before is None:
            self._found[key] = _Sum(counts)
        else:
            before.add(counts)

    @property
    def kernels(self) -> list[Counts]:
        """The sums."""
        return [each.total for each in self._found.values()]


class Found(NamedTuple):
    """What a PE has counted: its kernels, launches that were not counted by the reason, and bytes by (from PE, to PE)."""

    kernels: list[Counts]
    missed: dict[str, int]
    moved: Counter[tuple[int, int]]


class Counted:
    """What this PE counts from now on.

    Args:
        world: Its World.
    """

    def __init__(self, world: World) -> None:
        self._pe = world.my_pe
        self._totals, self._traffic = Totals(), Traffic()
        self._traffic.watch(world)
        begin(self._totals, operators=True)

    def leave(self, folder: str) -> None:
        """Write it to a file of a folder."""
        found = {
            "kernels": [c.to_json() for c in self._totals.kernels],
            "missed": Counting.missed,
            "moved": [[*pair, n] for pair, n in self._traffic.bytes.items()],
        }
        Path(folder, f"{self._pe}.json").write_text(json.dumps(found))


def read(folder: str) -> dict[int, Found]:
    """Return what each PE has left in a folder."""
    found = {}
    for path in sorted(Path(folder).glob("*.json"), key=lambda p: int(p.stem)):
        stored = json.loads(path.read_text())
        kernels = [Counts.from_json(c) for c in stored["kernels"]]
        moved = Counter({(source, target): n for source, target, n in stored["moved"]})
        found[int(path.stem)] = Found(kernels, stored["missed"], moved)
    return found


def describe(found: dict[int, Found]) -> str:
    """Return the table of a run: a part for each kernel on all PEs, a line for each PE, and bytes by pair."""
    totals = Totals()
    missed: Counter[str] = Counter()
    moved: Counter[tuple[int, int]] = Counter()
    for of_pe in found.values():
        for counts in of_pe.kernels:
            totals(counts)
        missed.update(of_pe.missed)
        moved.update(of_pe.moved)
    parts = [counts.table() for counts in totals.kernels] or [
        "no kernel was launched, no operator called"
    ]
    if len(found) > 1:
        parts.append(_by_pe(found))
    if moved:
        parts.append(traffic.describe(moved, max(*map(max, moved), max(found)) + 1))
    if missed:
        parts.append(f"Not counted: {'; '.join(f'{n} {reason}' for reason, n in missed.items())}.")
    return "\n\n".join(parts)


def _by_pe(found: dict[int, Found]) -> str:
    lines = [f"{'':<6}{'launches':>10}{'flops':>20}{'loaded':>18}{'stored':>18}"]
    for pe, (kernels, *_) in found.items():
        sums = (sum(c.launches for c in kernels), sum(c.flops for c in kernels))
        moved = (sum(c.loaded for c in kernels), sum(c.stored for c in kernels))
        lines.append(f"{f'PE {pe}':<6}{sums[0]:>10,}{sums[1]:>20,}{moved[0]:>18,}{moved[1]:>18,}")
    return "\n".join(lines)
