"""Lines of a program as reports name and quote them."""

from __future__ import annotations

import linecache
from typing import Protocol


class Place(Protocol):
    """A line of a source."""

    @property
    def file(self) -> str:
        """Path of the source."""

    @property
    def line(self) -> int:
        """Line of the source, from 1; 0: not known."""


def quoted(head: str, file: str, line: int) -> list[str]:
    """Return a line of a report, and below it the line of source that it is about, where that can be read.

    Args:
        head: The line of the report.
        file: Path of the source.
        line: Line of the source, from 1.
    """
    source = linecache.getline(file, line).strip()
    return [head, *([f"    {source}"] if source else [])]


def between(one: Place, other: Place) -> tuple[str, str]:
    """Return how two lines are called behind a report's first lines, which have their files."""
    if one.file == other.file:
        return f"line {one.line}", f"line {other.line}"
    return f"{one.file}:{one.line}", f"{other.file}:{other.line}"
