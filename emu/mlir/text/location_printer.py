"""Printer of locations, and of the aliases that long ones get.

MLIR writes ``loc(#loc3)`` behind an operation and defines the aliases: those that an argument refers
to before the module, the others behind it. They are numbered by depth (the parts of a location come
before it), then in the order in which the printer meets them. A block argument's own location is
written out, and still has an alias.
"""

from __future__ import annotations

from collections.abc import Mapping

from emu.mlir.diagnostics import UNKNOWN, CallSiteLoc, FileLoc, FusedLoc, Location, NameLoc
from emu.mlir.literals import quoted


def location_text(location: Location, names: Mapping[Location, str] | None = None) -> str:
    """Return what stands between ``loc(`` and ``)``.

    Args:
        location: The location; it is written out itself.
        names: Aliases of its parts. Default: none.
    """

    def inner(part: Location) -> str:
        name = names.get(part) if names else None
        return location_text(part, names) if name is None else name

    match location:
        case FileLoc(file, line, column, end_line, end_column):
            start = f"{quoted(file)}:{line}:{column}"
            if not end_line or (end_line, end_column) == (line, column):
                return start
            return f"{start} to {'' if end_line == line else end_line}:{end_column}"
        case NameLoc(name, child):
            return quoted(name) if child == UNKNOWN else f"{quoted(name)}({inner(child)})"
        case CallSiteLoc(callee, caller):
            return f"callsite({inner(callee)} at {inner(caller)})"
        case FusedLoc(parts, metadata):
            head = f"fused<{metadata}>" if metadata else "fused"
            return f"{head}[{', '.join(map(inner, parts))}]"
        case _:
            return str(location)


class _Entry:
    """A location that was met: its depth, its parts, whether its alias may follow the module, its alias."""

    __slots__ = ("deferrable", "depth", "name", "parts")

    def __init__(self, depth: int, deferrable: bool, parts: list[Location]) -> None:
        self.name: str | None = None
        self.depth = depth
        self.deferrable = deferrable
        self.parts = parts


class LocationNames:
    """Collection of the locations that the printer meets, and their aliases."""

    def __init__(self) -> None:
        self._entries: dict[Location, _Entry] = {}
        # By id, because comparing nested locations is slow and most are the same objects. `_kept` keeps
        # them alive: the id of a dead object may be used again.
        self._known: dict[int, _Entry] = {}
        self._kept: list[Location] = []

    def visit(self, location: Location, *, deferrable: bool) -> int:
        """Add a location and its parts; return its depth.

        Args:
            location: The location that the printer meets.
            deferrable: Whether its alias may be defined behind the module.
        """
        entry = self._known.get(id(location))
        if entry is None:
            entry = self._entries.get(location)
            if entry is not None:
                self._known[id(location)] = entry
                self._kept.append(location)
        if entry is not None:
            if not deferrable and entry.deferrable:
                self._define_first(entry)
            return entry.depth
        entry = self._entries[location] = _Entry(1, deferrable, _parts(location))
        self._known[id(location)] = entry
        self._kept.append(location)
        depths = [self.visit(part, deferrable=deferrable) for part in entry.parts]
        if depths:
            entry.depth = max(depths) + 1
        return entry.depth

    def _define_first(self, entry: _Entry) -> None:
        stack = [entry]
        while stack:
            entry = stack.pop()
            if entry.deferrable:
                entry.deferrable = False
                stack.extend(self._entries[part] for part in entry.parts)

    def names(self) -> dict[Location, str]:
        """Return the aliases ``#loc``, ``#loc1`` … of all locations, in order."""
        order = sorted(self._entries.items(), key=lambda item: item[1].depth)
        for number, (_, entry) in enumerate(order):
            entry.name = f"#loc{number or ''}"
        return {location: entry.name or "" for location, entry in order}

    def name(self, location: Location) -> str | None:
        """Return the alias of a location that was met, once ``names`` has given all; or None."""
        entry = self._known.get(id(location))
        return None if entry is None else entry.name

    def definitions(self, names: Mapping[Location, str], *, deferred: bool) -> str:
        """Return the lines that define aliases, before or (``deferred``) behind the module."""
        return "".join(
            f"{name} = loc({location_text(location, names)})\n"
            for location, name in names.items()
            if self._entries[location].deferrable is deferred
        )


def _parts(location: Location) -> list[Location]:
    match location:
        case NameLoc(_, child):
            return [] if child == UNKNOWN else [child]
        case CallSiteLoc(callee, caller):
            return [callee, caller]
        case FusedLoc(parts, _):
            return list(parts)
        case _:
            return []
