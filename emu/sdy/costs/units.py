"""Columns and meshes as text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Return lines of columns; those named in ``right`` end at one place."""
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def mesh_text(mesh: Sequence[tuple[str, int]]) -> str:
    """Return the axes of a mesh: ``x=4, y=8``."""
    return ", ".join(f"{name}={size}" for name, size in mesh) or "no mesh"
