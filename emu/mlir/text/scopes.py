"""Names of values and blocks while a text is parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.mlir.diagnostics import Location
from emu.mlir.ir import Block, Value

__all__ = ["Located", "PendingLocation", "Scopes"]


class Located:
    """Takes a location until the argument that it belongs to exists."""

    def __init__(self, location: Location) -> None:
        self.location = location


@dataclass(frozen=True, slots=True)
class PendingLocation(Location):
    """A location alias that is not yet defined."""

    alias: str
    place: int


@dataclass(slots=True)
class _Isolated:
    """The values that an isolated operation's regions can see.

    Attributes:
        values: By name: the results of that name.
        places: By name: where it was defined, or first used.
        levels: The names that each open region has defined.
    """

    values: dict[str, list[Value | None]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    levels: list[list[str]] = field(default_factory=list)


class Scopes:
    """The open scopes; `values` and `places` are those of the innermost.

    Args:
        kept: Is filled with the names that values have, as scopes end.
    """

    def __init__(self, kept: dict[Value, str] | None = None) -> None:
        self._kept = kept
        self._stack: list[_Isolated] = []
        self.values: dict[str, list[Value | None]] = {}
        self.places: dict[str, int] = {}
        self.forward: dict[Value, int] = {}
        self.names: list[str] = []
        self.blocks: list[dict[str, tuple[Block, int]]] = []
        self.forward_blocks: list[dict[str, tuple[Block, int]]] = []

    def push(self, *, isolated: bool) -> None:
        """Open the scope of a region."""
        if isolated or not self._stack:
            self._stack.append(_Isolated())
        top = self._stack[-1]
        top.levels.append([])
        self._select()
        self.blocks.append({})
        self.forward_blocks.append({})

    def pop(self) -> dict[str, tuple[Block, int]]:
        """Close it; gives the blocks that were used and never defined."""
        top = self._stack[-1]
        ended = top.levels.pop()
        if self._kept is not None:
            self._keep(ended)
        for name in ended:
            del top.values[name]
        if not top.levels:
            self._stack.pop()
        self._select()
        self.blocks.pop()
        return self.forward_blocks.pop()

    def _keep(self, ended: list[str]) -> None:
        kept = self._kept if self._kept is not None else {}
        for name in ended:
            values = self.values[name]
            for index, value in enumerate(values):
                if value is not None:
                    kept[value] = name if len(values) == 1 else f"{name}#{index}"

    def _select(self) -> None:
        if self._stack:
            top = self._stack[-1]
            self.values, self.places, self.names = top.values, top.places, top.levels[-1]
