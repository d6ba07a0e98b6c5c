"""Small graphs in compressed rows, and how the cases of this folder are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from grid_race_cases import Case

N = 16
"""Nodes of a graph."""

MOST = 8
"""The largest degree, as the width of a tile."""

Array = np.ndarray[Any, Any]
PATTERNS: dict[str, dict[bool, Case]] = {}


def graph() -> tuple[Array, Array]:
    """Return the beginnings of the rows, and the columns; node 0 is a neighbour of all others."""
    rng = np.random.default_rng(3)
    rows = [
        np.unique(np.append(rng.integers(1, N, int(rng.integers(1, MOST))), 0 if n else 1))
        for n in range(N)
    ]
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return first.astype(np.int32), np.concatenate(rows).astype(np.int32)


def chain() -> tuple[Array, Array]:
    """Return a graph without circles: the neighbours of a node come before it."""
    rows = [np.unique([max(n - 1, 0), n // 2]) if n else np.zeros(0, np.int32) for n in range(N)]
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return first.astype(np.int32), np.concatenate(rows).astype(np.int32)


def on(
    *more: Callable[[], Array], of: Callable[[], tuple[Array, Array]] = graph
) -> Callable[[], tuple[Any, ...]]:
    """Return what makes a graph and more arrays."""
    return lambda: (*of(), *(make() for make in more))


def zeros(size: int = N, value: int = 0) -> Callable[[], Array]:
    """Return what makes an array of one value."""
    return lambda: np.full(size, value, np.int32)


def numbers(size: int = N) -> Callable[[], Array]:
    """Return what makes an array of different numbers."""
    return lambda: np.random.default_rng(5).permutation(size).astype(np.int32) + 100


def pattern(
    kernel: Any,
    arguments: Callable[[], tuple[Any, ...]],
    races: str,
    *,
    grid: int = N,
    benign: str = "",
    **constants: Any,
) -> None:
    """Note a kernel: racy as it is, and clean with ``FIXED``."""
    name = kernel.__name__
    assert name not in PATTERNS

    def case(fixed: bool, races: str, benign: str) -> Case:
        launches = ((kernel, {"FIXED": fixed, **constants}),)
        return Case(name, launches, arguments, (grid,), races=races, benign=benign)

    PATTERNS[name] = {False: case(False, races, benign), True: case(True, "", "")}
