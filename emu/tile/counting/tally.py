"""Counters of a launch become its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from emu.tile.counting.counts import (
    MOST_CLASSES,
    Counts,
    DotCounts,
    ProgramCounts,
    TensorCounts,
)
from emu.tile.counting.plan import ALWAYS, NO_COLUMN, Dot, Plan, Runs, Site
from emu.tile.counting.work import FLOPS
from emu.tile.counting.working_sets import WorkingSet

Matrix = np.ndarray[Any, Any]


class Touched(NamedTuple):
    """Bytes of an argument's memory that were touched at least once, and the working sets of what was read."""

    loaded: int
    stored: int
    either: int
    read_by: WorkingSet


class Kernel(NamedTuple):
    """Which kernel it is: its name, file, line, and the names of its arguments."""

    name: str
    file: str
    line: int
    arguments: Sequence[str]


def tally(
    kernel: Kernel,
    plan: Plan,
    rows: Matrix,
    programs: int,
    touched: Sequence[Touched | None],
    unique: int | None,
) -> Counts:
    """Return the counts of a launch.

    Args:
        kernel: Which kernel it is.
        plan: What its counters count.
        rows: The counters, int64: a row for each program, or for several.
        programs: Number of programs.
        touched: Of each argument, what was touched; None: not known.
        unique: Bytes that were touched at all.
    """
    sums = [int(n) for n in rows.sum(axis=0, dtype=np.int64)]

    def total(runs: Runs) -> int:
        return sum(n * (programs if c == ALWAYS else sums[c]) for c, n in runs.items())

    work: Counter[tuple[str, str]] = Counter()
    dots: Counter[Dot] = Counter()
    operations = 0
    for block in plan.blocks:
        times = total(block.runs)
        operations += times * block.operations
        for unit, dtype, n in block.work:
            work[unit, dtype] += times * n
        for dot in block.dots:
            dots[dot] += times
    by_unit: dict[str, dict[str, int]] = {}
    for (unit, dtype), n in sorted(work.items()):
        if n:
            by_unit.setdefault(unit, {})[dtype] = n
    atomics: Counter[str] = Counter()
    for site in plan.sites:
        if site.is_atomic:
            atomics[f"{site.verb} {site.element}"] += total(_active(site))
    return Counts(
        kernel.name,
        kernel.file,
        kernel.line,
        1,
        programs,
        operations,
        by_unit,
        tuple(DotCounts(**asdict(dot), times=n) for dot, n in dots.items() if n),
        _tensors(kernel, plan, total, touched),
        {name: n for name, n in atomics.items() if n},
        unique,
        _classes(plan, rows, programs),
    )


def _active(site: Site) -> Runs:
    """Return how many lanes of a site access memory."""
    if site.column != NO_COLUMN:
        return {site.column: 1}
    return {column: n * site.lanes for column, n in site.runs.items()}


def _tensors(
    kernel: Kernel, plan: Plan, total: Any, touched: Sequence[Touched | None]
) -> tuple[TensorCounts, ...]:
    found: dict[tuple[tuple[int, ...], str], Counter[str]] = {}
    for site in plan.sites:
        row = found.setdefault((site.arguments, site.element), Counter())
        active, lanes = total(_active(site)), total(site.runs) * site.lanes
        what = {"load": "loaded", "store": "stored"}.get(site.verb, "atomic")
        row[what] += active * site.size
        row["lanes"] += lanes
        row["masked_off"] += lanes - active
    elements = Counter(arguments for arguments, _ in found)
    tensors = []
    for (arguments, element), row in found.items():
        name = " or ".join(kernel.arguments[a] for a in arguments) or "(memory)"
        # Of memory that is accessed by several types, the cells do not tell by which.
        is_known = len(arguments) == 1 and elements[arguments] == 1
        known = touched[arguments[0]] if is_known else None
        tensors.append(
            TensorCounts(
                name,
                element,
                row["loaded"],
                row["stored"],
                row["atomic"],
                None if known is None else known.loaded,
                None if known is None else known.stored,
                None if known is None else known.either,
                row["lanes"],
                row["masked_off"],
                () if known is None else known.read_by,
            )
        )
    return tuple(tensors)


def _classes(plan: Plan, rows: Matrix, programs: int) -> tuple[ProgramCounts, ...]:
    """Return the programs by what they did."""
    factors = _factors(plan)
    found: list[ProgramCounts] = []
    left = rows[:programs]
    if len(left) == programs:
        while len(left) and len(found) < MOST_CLASSES - 1:
            alike = (left == left[0]).all(axis=1)
            count = int(alike.sum())
            each = [int(f[ALWAYS]) + int(left[0] @ f[:ALWAYS]) for f in factors]
            found.append(_class(count, [count * n for n in each], True))
            left = left[~alike]
        programs = len(left)
    else:  # a row is of several programs
        left = rows
    if programs:
        sums = left.sum(axis=0, dtype=np.int64)
        rest = [int(f[ALWAYS]) * programs + int(sums @ f[:ALWAYS]) for f in factors]
        found.append(_class(programs, rest, programs == 1))
    return tuple(found)


def _class(programs: int, numbers: Sequence[int], is_uniform: bool) -> ProgramCounts:
    operations, flops, loaded, stored = numbers
    return ProgramCounts(programs, operations, flops, loaded, stored, is_uniform)


def _factors(plan: Plan) -> list[Matrix]:
    """Return the factors of operations, flops, bytes loaded and bytes stored: of the columns, and a constant at the end."""
    operations, flops, loaded, stored = (np.zeros(plan.columns + 1, np.int64) for _ in range(4))
    for block in plan.blocks:
        each = sum(n for unit, _, n in block.work if unit in FLOPS)
        for column, n in block.runs.items():
            operations[column] += n * block.operations
            flops[column] += n * each
    for site in plan.sites:
        for column, n in _active(site).items():
            if site.verb != "store":
                loaded[column] += n * site.size
            if site.verb != "load":
                stored[column] += n * site.size
    return [operations, flops, loaded, stored]
