"""Checks that rules are made of; each raises ``Broken`` if it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import (
    I1,
    DType,
    Tile,
    Token,
    Type,
    element_of,
)


class Broken(Exception):
    """Error for an operation that breaks a rule."""


def need(holds: bool, message: str) -> None:
    """Raise ``Broken`` unless a condition holds."""
    if not holds:
        raise Broken(message)


def types_are(what: str, found: Sequence[Value], wanted: Sequence[Type]) -> None:
    """Check the types of a list of values."""
    types = [v.type for v in found]
    if types != list(wanted):
        raise Broken(f"{what} must be {_listed(wanted)}, but got {_listed(types)}")


def _listed(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def count_operands(o: Operation, least: int, most: int | None = None) -> None:
    """Check the number of operands, by default exactly ``least``."""
    most = least if most is None else most
    if not least <= len(o.operands) <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise Broken(f"it must have {counts} operands, but got {len(o.operands)}")


def result_is(o: Operation, type_: Type) -> None:
    """Check that there is one result, of a type."""
    types_are("its results", o.results, [type_])


def tile_of(value: Value, what: str = "its operand") -> Tile:
    """Return the type of a value that must be a tile."""
    if not isinstance(value.type, Tile):
        raise Broken(f"{what} must be a tile, but got {value.type}")
    return value.type


def data_of(value: Value) -> Type:
    """Return the type of a value that must not be a token."""
    need(not isinstance(value.type, Token), "its operands must not be tokens")
    return value.type


def dtype_in(value: Value, allowed: Callable[[DType], bool], what: str) -> DType:
    """Return the dtype of a value, which must be one of those allowed."""
    element = element_of(data_of(value))
    if not isinstance(element, DType) or not allowed(element):
        raise Broken(f"it takes {what}, but got {value.type}")
    return element


def is_integer(dtype: DType) -> bool:
    """Return whether a dtype is an integer other than i1."""
    return dtype.is_integer


def is_float(dtype: DType) -> bool:
    """Return whether a dtype is floating."""
    return dtype.is_float


def is_number(dtype: DType) -> bool:
    """Return whether a dtype is other than i1."""
    return dtype != I1


def axis_in(o: Operation, rank: int) -> int:
    """Return the axis that an operation names, which must be below the rank."""
    axis = int(o.attributes["axis"])
    need(0 <= axis < rank, f"axis must be 0 to {rank - 1}, but got {axis}")
    return axis


def whole(value: object) -> bool:
    """Return whether an attribute is an int."""
    return isinstance(value, int) and not isinstance(value, bool)  # Python's True is an int


def yields(region: Region) -> Sequence[Value]:
    """Return the operands of a region's terminator."""
    # Rules may be called on whatever was built: a region may even be empty.
    last = region.operations[-1] if region.operations else None
    if last is None or last.code is not Code.YIELD:
        raise Broken("its region must end with yield")
    return last.operands


def count_regions(o: Operation, count: int) -> None:
    """Check the number of regions."""
    need(
        len(o.regions) == count,
        f"the number of its regions must be {count}, but got {len(o.regions)}",
    )
