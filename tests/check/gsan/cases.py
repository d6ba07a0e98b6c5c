"""How the cases of this folder are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grid_race_cases import Case

CASES: dict[str, Case] = {}


def case(
    name: str,
    kernel: Any,
    arguments: Callable[[], tuple[Any, ...]],
    grid: int | tuple[int, ...],
    constants: dict[str, Any] | None = None,
    *,
    then: tuple[tuple[Any, dict[str, Any]], ...] = (),
    **label: Any,
) -> None:
    """Note a case; the label is what :class:`Case` has after the grid."""
    assert name not in CASES
    launches = ((kernel, constants or {}), *then)
    extents = (grid,) if isinstance(grid, int) else grid
    CASES[name] = Case(name, launches, arguments, extents, **label)
