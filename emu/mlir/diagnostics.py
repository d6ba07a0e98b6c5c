"""Locations, and diagnostics that refer to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Location:
    """Base of all locations."""


@dataclass(frozen=True, slots=True)
class UnknownLoc(Location):
    """``loc(unknown)``."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class FileLoc(Location):
    """``loc("file":line:column)``; lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class NameLoc(Location):
    """``loc("name"(child))``."""

    name: str
    child: Location

    def __str__(self) -> str:
        return f'"{self.name}"' if self.child == UNKNOWN else f'"{self.name}"({self.child})'


@dataclass(frozen=True, slots=True)
class CallSiteLoc(Location):
    """``loc(callsite(callee at caller))``."""

    callee: Location
    caller: Location

    def __str__(self) -> str:
        return f"callsite({self.callee} at {self.caller})"


@dataclass(frozen=True, slots=True)
class FusedLoc(Location):
    """``loc(fused<metadata>[a, b])``; the metadata is kept as text."""

    locations: tuple[Location, ...]
    metadata: str = ""

    def __str__(self) -> str:
        head = f"fused<{self.metadata}>" if self.metadata else "fused"
        return f"{head}[{', '.join(map(str, self.locations))}]"


UNKNOWN = UnknownLoc()


class HasPlaces(Protocol):
    """A text that knows the location of each offset."""

    def location(self, offset: int) -> Location:
        """Return the location."""


Place = tuple[HasPlaces, int]
"""A text and an offset: a location that nobody has asked for yet."""


def located(place: Place) -> Location:
    """Return the location of a place."""
    text, offset = place
    return text.location(offset)


def fused(locations: Iterable[Location]) -> Location:
    """Return the location of something that comes from several places.

    Fused locations without metadata are flattened; unknown and repeated ones are dropped.
    """
    # A dict keeps the order of the first occurrences, in which MLIR prints the parts.
    found: dict[Location, None] = {}
    for location in locations:
        if isinstance(location, FusedLoc) and not location.metadata:
            found.update(dict.fromkeys(location.locations))
        elif location != UNKNOWN:
            found[location] = None
    if len(found) <= 1:
        return next(iter(found), UNKNOWN)
    return FusedLoc(tuple(found))


class Severity(Enum):
    """Severity of a diagnostic; the value is the word that is printed."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(slots=True)
class Diagnostic:
    """A message about a place, with notes that explain it."""

    severity: Severity
    location: Location
    message: str
    notes: list[Diagnostic] = field(default_factory=list)

    def note(self, message: str, location: Location | None = None) -> Diagnostic:
        """Add a note; return the diagnostic itself, so that notes chain."""
        place = self.location if location is None else location
        self.notes.append(Diagnostic(Severity.NOTE, place, message))
        return self


class Diagnostics:
    """List of the diagnostics that were emitted.

    Args:
        said: Kinds of warnings that ``warning_once`` has emitted already; several lists may share
            one set. Default: a new one.
    """

    def __init__(self, said: set[str] | None = None) -> None:
        self.emitted: list[Diagnostic] = []
        self._said: set[str] = set() if said is None else said

    def error(self, location: Location, message: str) -> Diagnostic:
        """Emit an error and return it, so that notes can be added."""
        return self.emit(Diagnostic(Severity.ERROR, location, message))

    def warning(self, location: Location, message: str) -> Diagnostic:
        """Emit a warning and return it."""
        return self.emit(Diagnostic(Severity.WARNING, location, message))

    def warning_once(self, kind: str, location: Location, message: str) -> None:
        """Emit a warning, unless one of its kind was emitted by this method before."""
        if kind not in self._said:
            self._said.add(kind)
            self.warning(location, message)

    def emit(self, diagnostic: Diagnostic) -> Diagnostic:
        """Emit a diagnostic and return it."""
        self.emitted.append(diagnostic)
        return diagnostic

    @property
    def errors(self) -> list[Diagnostic]:
        """Diagnostics of severity ERROR."""
        return [d for d in self.emitted if d.severity is Severity.ERROR]


class MlirError(ValueError):
    """A text, a module or a pass is wrong; ``str()`` shows place and caret.

    Attributes:
        diagnostics: Diagnostics that were emitted, the errors included.
    """

    def __init__(self, text: str, diagnostics: list[Diagnostic]) -> None:
        super().__init__(text)
        self.diagnostics = diagnostics

    def __reduce__(self) -> tuple[type[MlirError], tuple[str, list[Diagnostic]]]:
        return (type(self), (str(self), self.diagnostics))


class PassFailed(Exception):
    """A pass failed, and has emitted its error."""
