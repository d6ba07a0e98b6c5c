"""Names of values in the text, carried through passes in locations.

Everything that a pass creates has the location of what it is made from, and
nothing compares locations. So a ``NameLoc`` around each location survives
copies, splits and clones without any pass knowing of it. Its name starts with
a NUL character, which no name in a text has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emu.mlir import parse
from emu.mlir.diagnostics import (
    UNKNOWN,
    CallSiteLoc,
    FileLoc,
    FusedLoc,
    Location,
    NameLoc,
    file_place,
)
from emu.mlir.ir import Block, BlockArgument, Operation, OpResult, Value
from emu.mlir.text.naming import Names

_MARK = "\0"
_PARTS = 3


@dataclass(frozen=True, slots=True)
class ValueName:
    """Name of a value.

    Attributes:
        function: Name of the function in whose text it is, without "@".
        name: ``%5``, ``%arg0``, ``%3#1``.
        number: Index among the values of that name in the function, since
            sibling regions use the same names.
    """

    function: str
    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name} in @{self.function}" if self.function else self.name


def named_copy(
    module: Operation | str, file: str = "-"
) -> tuple[Operation, dict[Value, ValueName], Operation]:
    """Return a module, the names of its values, and a copy whose locations have these names.

    Args:
        module: A module, whose values have the names that the printer gives them, or a text.
        file: Name of the text in locations.
    """
    if isinstance(module, str):
        names: dict[Value, str] = {}
        original = parse(module, file=file, names=names)
    else:
        original, names = module, Names(module, generic=False).values
    called = value_names(original, names)
    mapping: dict[Value, Value] = {}
    copy = original.clone(mapping)
    add_names(copy, {mapping[value]: name for value, name in called.items()})
    return original, called, copy


def value_names(module: Operation, names: Mapping[Value, str]) -> dict[Value, ValueName]:
    """Return the name of each named value of a module, in the order of the text."""
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
        for argument in _arguments(op):
            name(function, [argument])
    return found


def _arguments(op: Operation) -> Iterator[BlockArgument]:
    """Yield the arguments of all blocks of an operation."""
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def add_names(module: Operation, names: Mapping[Value, ValueName]) -> None:
    """Add the names of all values to the locations of their definitions."""
    for op in module.walk():
        op.location = NameLoc(
            _encoded(names.get(op.results[0]) if op.results else None), op.location
        )
        for argument in _arguments(op):
            argument.location = NameLoc(_encoded(names.get(argument)), argument.location)


# The mark begins the name of a location that this module made, and separates its parts; no text of
# a program has it. A value without a name gets the marks alone, so that no outer name is found.
def _encoded(name: ValueName | None) -> str:
    if name is None:
        return _MARK * 3
    return _MARK + _MARK.join((name.function, str(name.number), name.name.partition("#")[0]))


def remove_names(module: Operation) -> None:
    """Remove the names from all locations again."""
    for op in module.walk():
        op.location = without_name(op.location)
        for argument in _arguments(op):
            argument.location = without_name(argument.location)


def without_name(location: Location) -> Location:
    """Return a location without the name that ``add_names`` put there."""
    while isinstance(location, NameLoc) and location.name.startswith(_MARK):
        location = location.child
    return location


def function_of(op: Operation) -> str:
    """Return the name of the function that contains an operation, without "@"."""
    function = op if op.name == "func.func" else op.ancestor("func.func")
    return (function.symbol_name or "") if function is not None else ""


def name_of(value: Value) -> ValueName | None:
    """Return the name of a value, or of the value it was made from; None if it has none."""
    if isinstance(value, BlockArgument):
        return _find(value.location) or _from_parent(value.owner)
    if not isinstance(value, OpResult):
        return None
    found = _find(value.owner.location)
    if found is None or len(value.owner.results) == 1:
        return found
    return ValueName(found.function, f"{found.name}#{value.index}", found.number)


def given_name(value: object) -> str:
    """Return the name that a front end gave an argument, as JAX does; "" without one."""
    if not isinstance(value, BlockArgument):
        return ""
    location = without_name(value.location)
    return location.name if isinstance(location, NameLoc) else ""


def location_name(location: Location) -> ValueName | None:
    """Return the name of the (first) value of the operation that a location comes from."""
    return _find(location)


def _from_parent(block: Block) -> ValueName | None:
    parent = block.parent_op
    return _find(parent.location) if parent is not None else None


def _find(location: Location) -> ValueName | None:
    if isinstance(location, NameLoc):
        # Marks of others (see ``emu.sdy.costs``) begin with a NUL character too, but have one only.
        if location.name.startswith(_MARK) and location.name.count(_MARK) == _PARTS:
            function, number, name = location.name[1:].split(_MARK, 2)
            return ValueName(function, name, int(number)) if name else None
        return _find(location.child)
    if isinstance(location, FusedLoc):
        return next((n for n in map(_find, location.locations) if n is not None), None)
    if isinstance(location, CallSiteLoc):
        return _find(location.callee)
    return None


def place_of(location: Location) -> str:
    """Return the place of a location: ``file:line``, with the names JAX gives; "" if unknown."""
    location = without_name(location)
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


def line_of(location: Location) -> str:
    """Return the source line of a location, ``file:line``; "" if unknown."""
    place = file_place(location)
    return "" if place is None else f"{place.file}:{place.line}"
