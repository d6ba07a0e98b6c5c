"""Values, operations, regions, functions: the tile IR as Python objects.

A program is in SSA form with structured control: an operation owns its regions, a region is one list of
operations that ends with ``yield`` (a function's body with ``return``). A value is defined once, and is
visible in the rest of its region and in what is nested there.

Internal: names may change in any release; :mod:`emu.tile.ir` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from emu.tile.ops import Code
from emu.tile.types import DType, Type, dtype_of, shape_of

Attribute: TypeAlias = Any
"""Attribute of an operation: a bool, number or string, or a tuple of these; ``ops.Code`` says which."""


class TileError(Exception):
    """Error for a program of the tile IR that breaks a rule."""


@dataclass(frozen=True, slots=True)
class Location:
    """Source location of an operation.

    Attributes:
        file: Path of the file.
        line: First line is 1.
        column: First column is 1.
        function: Name of the function in whose source that is.
        caller: Where that function was called from, if it was inlined.
    """

    file: str
    line: int
    column: int
    function: str = ""
    caller: Location | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Value:
    """One result of an operation, or one argument of a region.

    Attributes:
        type: Its type.
        owner: The operation that defines it; ``None`` for an argument.
        name: A hint for readers; may be empty, need not be unique.
    """

    __slots__ = ("name", "owner", "type")

    def __init__(self, type_: Type, owner: Operation | None = None, name: str = "") -> None:
        self.type = type_
        self.owner = owner
        self.name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tile, ``()`` for a scalar."""
        return shape_of(self.type)

    @property
    def dtype(self) -> DType:
        """Dtype of the elements; TypeError for pointers and tokens."""
        return dtype_of(self.type)

    def __repr__(self) -> str:
        return f"Value({self.name or '?'}: {self.type})"


class Operation:
    """One operation.

    Attributes:
        code: Code of the operation.
        operands: Values that it takes.
        results: Values that it defines.
        attributes: Python values that belong to the code, as ``ops.Code`` says.
        regions: Its regions.
        location: Where it comes from, if known.
    """

    __slots__ = ("attributes", "code", "location", "operands", "regions", "results")

    def __init__(
        self,
        code: Code,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        location: Location | None = None,
    ) -> None:
        self.code = code
        self.operands = tuple(operands)
        self.results = tuple(Value(t, self) for t in result_types)
        self.attributes = attributes or {}
        self.regions = tuple(regions)
        self.location = location

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result

    def __repr__(self) -> str:
        return f"Operation({self.code.name.lower()} at {self.location})"


@dataclass(slots=True)
class Region:
    """Arguments and a list of operations, the last of which is a terminator."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        return self.operations[-1]

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, those of nested regions after the one that owns them."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(slots=True)
class Function:
    """A function: the kernel itself, or one that it calls.

    Attributes:
        name: Unique in its module.
        body: Its arguments are the function's; ends with RETURN.
        results: Types of what it returns.
        noinline: Whether compilers that can should emit it once, and call it; its arguments and results
            are scalars then.
    """

    name: str
    body: Region
    results: tuple[Type, ...] = ()
    noinline: bool = False


@dataclass(slots=True)
class Module:
    """Functions by name; the first is the kernel, which returns nothing."""

    functions: dict[str, Function] = field(default_factory=dict)

    @property
    def kernel(self) -> Function:
        """The first function; TileError if there is none."""
        for function in self.functions.values():
            return function
        raise TileError("a module must have a kernel, but it has no functions")


def checked_module(module: object) -> Module:
    """Return a module.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(module, Module):
        raise TypeError(f"module must be a Module, but got {type(module).__name__}")
    return module
