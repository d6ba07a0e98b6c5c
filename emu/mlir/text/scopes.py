"""Names of values and blocks while a text is parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from emu.mlir.assembly import Operand
from emu.mlir.diagnostics import Location, Place
from emu.mlir.ir import Block, Located, Value
from emu.mlir.text.token_reader import TokenReader
from emu.mlir.types import Type


class StandIn(Located):
    """Holder of a location until the argument that it belongs to exists."""

    __slots__ = ("_location",)

    def __init__(self, location: Location | Place) -> None:
        self._location = location


@dataclass(frozen=True, slots=True)
class PendingLocation(Location):
    """A location alias that is not yet defined."""

    alias: str
    place: int


@dataclass(slots=True)
class _Isolated:
    """Values that an isolated operation's regions can see.

    Attributes:
        values: Values by name.
        places: By name: where it was defined, or first used.
        levels: Names that each open region has defined.
    """

    values: dict[str, list[Value | None]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    levels: list[list[str]] = field(default_factory=list)


class Scopes:
    """Open scopes of a parser; ``values`` and ``places`` are those of the innermost.

    A value that is used before it is defined stands in for the later one, and gives its uses to it
    when that is defined: the order of ``Value.uses`` is MLIR's.

    Args:
        reader: The place in the text.
        kept: Is filled with the names that values have, as scopes end.

    Attributes:
        values: Values by name; None where one was neither defined nor used.
        places: By name: where it was defined, or first used.
        undefined: Values that were used but not yet defined, and where.
        blocks: Blocks of each open region, by name, with the places of their labels.
        forward_blocks: Those that were named but not yet defined.
        looked_up: Is filled with the offsets of the names that ``resolve`` is asked for, unless None.
    """

    def __init__(self, reader: TokenReader, kept: dict[Value, str] | None = None) -> None:
        self._reader = reader
        self._kept = kept
        self._stack: list[_Isolated] = []
        self.values: dict[str, list[Value | None]] = {}
        self.places: dict[str, int] = {}
        self.undefined: dict[Value, int] = {}
        self.looked_up: list[int] | None = None
        self._names: list[str] = []
        self._announced = 0  # results that were used but not yet defined, with those between
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
        """Close the innermost scope; return the blocks that were named and never defined."""
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
            self.values, self.places, self._names = top.values, top.places, top.levels[-1]

    # Values

    def resolve(self, operand: Operand, type_: Type) -> Value:
        """Return the value that a name stands for; one that is not yet defined is made up.

        Args:
            operand: The name.
            type_: The type that the operation expects it to have.
        """
        name, number, place = operand
        if self.looked_up is not None:
            self.looked_up.append(place)
        entries = self.values.get(name)
        if entries is None:
            return self._forward(operand, type_, [])
        if number >= len(entries):
            if any(v is not None and v not in self.undefined for v in entries):
                self._reader.fail("reference to invalid result number", place)
            return self._forward(operand, type_, entries)
        value = entries[number]
        if value is None:
            return self._forward(operand, type_, entries)
        if value.type is not type_ and value.type != type_:
            self._reader.fail(
                f"use of value '{name}' expects different type than prior uses: "
                f"'{type_}' vs '{value.type}'",
                place,
                notes=(("prior use here", self.places[name]),),
            )
        return value

    def _forward(self, operand: Operand, type_: Type, entries: list[Value | None]) -> Value:
        name, number, place = operand
        if self.values.setdefault(name, entries) is entries:
            self.places[name] = place
        missing = number + 1 - len(entries)
        self._announced += max(missing, 0)
        if self._announced > len(self._reader.source.text):
            # The text is too short to define so many results, and the list would fill the memory.
            self._reader.fail("use of undeclared SSA value name", place)
        entries.extend([None] * missing)
        value = Value(type_)
        entries[number] = value
        self.undefined[value] = place
        return value

    def define(self, name: str, values: Sequence[Value], place: int) -> None:
        """Give a name to values; raise an error where it has some already."""
        known = self.values.get(name)
        if known is not None:
            self._redefine(name, known, values, place)
        self.values[name] = list(values)
        self.places[name] = place
        self._names.append(name)

    def _redefine(
        self, name: str, known: list[Value | None], values: Sequence[Value], place: int
    ) -> None:
        for number, old in enumerate(known):
            if old is None:
                continue
            if old not in self.undefined:
                self._reader.fail(
                    f"redefinition of SSA value '{name}'",
                    place,
                    notes=(("previously defined here", self.places[name]),),
                )
            if number >= len(values):
                # Never to be defined: reported with the other undeclared ones.
                continue
            new = values[number]
            if old.type != new.type:
                self._reader.fail(
                    f"definition of SSA value '{name}#{number}' has type '{new.type}'",
                    place,
                    notes=((f"previously used here with type '{old.type}'", self.undefined[old]),),
                )
            if old.has_uses:
                old.replace_all_uses_with(new)
            del self.undefined[old]
