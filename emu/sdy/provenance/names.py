"""The names that values have in the text, carried through passes in locations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emu.mlir.diagnostics import UNKNOWN, CallSiteLoc, FileLoc, FusedLoc, Location, NameLoc
from emu.mlir.ir import Block, BlockArgument, Operation, OpResult, Value

__all__ = [
    "ValueName",
    "function_of",
    "mark",
    "name_of",
    "place_of",
    "unmark",
    "unmarked",
    "value_names",
]

_MARK = "\0"


@dataclass(frozen=True, slots=True)
class ValueName:
    """What a value is called.

    Attributes:
        function: The function in whose text it is, without "@".
        name: ``%5``, ``%arg0``, ``%3#1``.
        number: Regions beside each other use the same names: the how many-th
            of that name in the function it is.
    """

    function: str
    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name} in @{self.function}" if self.function else self.name


def value_names(module: Operation, names: Mapping[Value, str]) -> dict[Value, ValueName]:
    """What each value of a module that has a name is called, in the order of the text."""
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Value, ValueName] = {}

    def name(function: str, values: Sequence[Value]) -> None:
        if values and values[0] in names:
            key = function, names[values[0]].partition("#")[0]
            found.update((v, ValueName(function, names[v], counts[key])) for v in values)
            counts[key] += 1

    for op in module.walk():
        function = function_of(op)
        name(function, op.results)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    name(function, [argument])
    return found


def mark(module: Operation, names: Mapping[Value, ValueName]) -> None:
    """Put the names of all values into the locations of what defines them."""
    for op in module.walk():
        op.location = NameLoc(
            _marked(names.get(op.results[0]) if op.results else None), op.location
        )
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.location = NameLoc(_marked(names.get(argument)), argument.location)


def _marked(name: ValueName | None) -> str:
    if name is None:
        return _MARK * 3
    return _MARK + _MARK.join((name.function, str(name.number), name.name.partition("#")[0]))


def unmark(module: Operation) -> None:
    """Take the names out of the locations again."""
    for op in module.walk():
        op.location = unmarked(op.location)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.location = unmarked(argument.location)


def unmarked(location: Location) -> Location:
    """A location without the name that `mark` put there."""
    while isinstance(location, NameLoc) and location.name.startswith(_MARK):
        location = location.child
    return location


def function_of(op: Operation) -> str:
    """The function that holds an operation, without "@"."""
    holder = op if op.name == "func.func" else op.ancestor("func.func")
    return (holder.symbol_name or "") if holder is not None else ""


def name_of(value: Value) -> ValueName | None:
    """The name of a value, or of that from which it was made."""
    if isinstance(value, BlockArgument):
        found = _find(value.location) or _from_holder(value.owner)
        return found
    if not isinstance(value, OpResult):
        return None
    found = _find(value.owner.location)
    if found is None or len(value.owner.results) == 1:
        return found
    return ValueName(found.function, f"{found.name}#{value.index}", found.number)


def _from_holder(block: Block) -> ValueName | None:
    holder = block.parent_op
    return _find(holder.location) if holder is not None else None


def _find(location: Location) -> ValueName | None:
    if isinstance(location, NameLoc):
        if location.name.startswith(_MARK):
            function, number, name = location.name[1:].split(_MARK, 2)
            return ValueName(function, name, int(number)) if name else None
        return _find(location.child)
    if isinstance(location, FusedLoc):
        return next((n for n in map(_find, location.locations) if n is not None), None)
    if isinstance(location, CallSiteLoc):
        return _find(location.callee)
    return None


def place_of(location: Location) -> str:
    """Where a reader finds it: ``file:line``, with the names JAX gives; "" if nowhere."""
    location = unmarked(location)
    if isinstance(location, FileLoc):
        return f"{location.file}:{location.line}"
    if isinstance(location, NameLoc):
        inner = place_of(location.child)
        return f"{location.name} ({inner})" if inner else location.name
    if isinstance(location, CallSiteLoc):
        return place_of(location.callee)
    if isinstance(location, FusedLoc):
        return next((p for p in map(place_of, location.locations) if p), "")
    return "" if location == UNKNOWN else str(location)
