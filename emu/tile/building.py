"""The builder of the tile IR: it infers result types, and refuses operands that do not fit.

Internal: names may change in any release; :mod:`emu.tile.ir` has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emu.tile import ops
from emu.tile.objects import Attribute, Function, Location, Operation, Region, TileError, Value
from emu.tile.ops import Code
from emu.tile.types import (
    I1,
    I32,
    Pointer,
    ScalarType,
    Tile,
    Token,
    Type,
    element_of,
    with_element,
    with_shape,
)


@dataclass(slots=True)
class Loop:
    """A FOR under construction: the values that its body sees, and then its results."""

    index: Value
    carried: list[Value]
    results: list[Value] = field(default_factory=list)


class Builder:
    """Builder that appends operations to a region; each method returns the result.

    Attributes:
        region: Where operations go.
        location: What they are given as their location.
        check: Called with the code of each operation before it is appended; raises if it must not be there.
    """

    def __init__(self, region: Region | None = None) -> None:
        self.region = region if region is not None else Region()
        self.location: Location | None = None
        self.check: Callable[[Code], None] | None = None

    def append(
        self,
        code: Code,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Append an operation, without a check of its types."""
        if self.check is not None:
            self.check(code)
        operation = Operation(code, operands, result_types, attributes, regions, self.location)
        self.region.operations.append(operation)
        return operation

    @contextlib.contextmanager
    def checking(self, check: Callable[[Code], None]) -> Iterator[None]:
        """Call a function with the code of each operation that is to be appended inside the block."""
        before, self.check = self.check, check
        try:
            yield
        finally:
            self.check = before

    @contextlib.contextmanager
    def into(self, region: Region) -> Iterator[Region]:
        """Append to another region inside the block."""
        before, self.region = self.region, region
        try:
            yield region
        finally:
            self.region = before

    def _one(
        self, code: Code, operands: Sequence[Value], type_: Type, **attributes: Attribute
    ) -> Value:
        return self.append(code, operands, (type_,), attributes).result

    # ---- values from nothing

    def constant(self, value: bool | float, type_: Type) -> Value:
        """Return a scalar, or a tile all of whose elements have the value."""
        return self._one(Code.CONSTANT, (), type_, value=value)

    def program_id(self, axis: int) -> Value:
        """Return the index of this program along an axis of the grid, i32."""
        return self._one(Code.PROGRAM_ID, (), I32, axis=axis)

    def num_programs(self, axis: int) -> Value:
        """Return the extent of the grid along an axis, i32."""
        return self._one(Code.NUM_PROGRAMS, (), I32, axis=axis)

    def arange(self, start: int, end: int) -> Value:
        """Return the i32 numbers from ``start`` to before ``end``."""
        return self._one(Code.ARANGE, (), Tile((end - start,), I32), start=start, end=end)

    # ---- shape

    def splat(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeat one scalar as a tile; return the scalar itself where the shape is ``()``."""
        if not shape:
            return value
        return self._one(Code.SPLAT, (value,), Tile(tuple(shape), element_of(value.type)))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeat the axes of extent 1; return the tile itself if it has the shape."""
        if value.shape == tuple(shape):
            return value
        fits = len(value.shape) == len(shape) and all(
            v in (1, s) for v, s in zip(value.shape, shape, strict=True)
        )
        if not fits:
            raise TileError(f"a tile of shape {value.shape} cannot be broadcast to {tuple(shape)}")
        return self._one(Code.BROADCAST, (value,), Tile(tuple(shape), element_of(value.type)))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Give the elements another shape, in row-major order; a scalar counts as one element."""
        if value.shape == tuple(shape):
            return value
        if not value.shape:
            return self.splat(value, shape)
        type_ = Tile(tuple(shape), element_of(value.type))
        assert isinstance(value.type, Tile)
        if type_.size != value.type.size:
            raise TileError(f"a tile of shape {value.shape} cannot be reshaped to {tuple(shape)}")
        return self._one(Code.RESHAPE, (value,), type_)

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """Permute the axes: axis i of the result is axis ``order[i]`` of the tile."""
        if sorted(order) != list(range(len(value.shape))):
            raise TileError(f"order must permute {len(value.shape)} axes, but got {tuple(order)}")
        shape = tuple(value.shape[a] for a in order)
        type_ = Tile(shape, element_of(value.type))
        return self._one(Code.PERMUTE, (value,), type_, order=tuple(order))

    def join(self, first: Value, second: Value) -> Value:
        """Join two tiles along a new last axis of extent 2; two scalars give a tile of shape (2,)."""
        self._same(first, second)
        type_ = Tile((*first.shape, 2), element_of(first.type))
        return self._one(Code.JOIN, (first, second), type_)

    def split(self, value: Value) -> tuple[Value, Value]:
        """Split a last axis of extent 2 into two tiles."""
        if not value.shape or value.shape[-1] != 2:
            raise TileError(f"split needs a last axis of extent 2, but got shape {value.shape}")
        type_ = with_shape(value.shape[:-1], element_of(value.type))
        first, second = self.append(Code.SPLIT, (value,), (type_, type_)).results
        return first, second

    def cat(self, first: Value, second: Value, axis: int = 0) -> Value:
        """Concatenate two tiles along an axis."""
        shape = list(first.shape)
        shape[axis] += second.shape[axis]
        type_ = Tile(tuple(shape), element_of(first.type))
        return self._one(Code.CAT, (first, second), type_, axis=axis)

    def gather(self, value: Value, index: Value, axis: int) -> Value:
        """Pick along an axis: the result has the index's shape."""
        type_ = Tile(index.shape, element_of(value.type))
        return self._one(Code.GATHER, (value, index), type_, axis=axis)

    def flip(self, value: Value, axis: int) -> Value:
        """Reverse an axis."""
        return self._one(Code.FLIP, (value,), value.type, axis=axis)

    # ---- element by element

    def _same(self, *values: Value) -> None:
        if any(v.type != values[0].type for v in values):
            found = ", ".join(str(v.type) for v in values)
            raise TileError(f"operands must have one type, but got {found}")

    def unary(self, code: Code, value: Value) -> Value:
        """Apply an operation from NEG to RINT."""
        assert code in ops.UNARY
        if code in ops.FLOAT_UNARY and not value.dtype.is_float:
            raise TileError(
                f"{code.name.lower()} takes floating-point values, but got {value.type}"
            )
        return self._one(code, (value,), value.type)

    def binary(self, code: Code, first: Value, second: Value, **attributes: Attribute) -> Value:
        """Apply an operation from ADD to MULHI; both operands have one type."""
        assert code in ops.BINARY
        self._same(first, second)
        return self._one(code, (first, second), first.type, **attributes)

    def compare(self, code: Code, first: Value, second: Value) -> Value:
        """Apply a comparison from EQ to GE; pointers may be compared too."""
        assert code in ops.COMPARISONS
        self._same(first, second)
        return self._one(code, (first, second), with_element(first.type, I1))

    def select(self, condition: Value, first: Value, second: Value) -> Value:
        """Take ``first`` where the condition is true, else ``second``; all three have one shape."""
        self._same(first, second)
        if condition.type != with_element(first.type, I1):
            raise TileError(f"the condition must be i1 of {first.type}, but got {condition.type}")
        return self._one(Code.SELECT, (condition, first, second), first.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Compute ``a * b + c`` with one rounding."""
        self._same(a, b, c)
        return self._one(Code.FMA, (a, b, c), a.type)

    def cast(self, value: Value, element: ScalarType, rounding: str = "rtne") -> Value:
        """Convert the elements; append nothing if they have that type."""
        if element_of(value.type) == element:
            return value
        return self._one(Code.CAST, (value,), with_element(value.type, element), rounding=rounding)

    def bitcast(self, value: Value, element: ScalarType) -> Value:
        """Read the same bits as another type of the same width."""
        if element_of(value.type) == element:
            return value
        return self._one(Code.BITCAST, (value,), with_element(value.type, element))

    # ---- memory

    def ptr_add(self, pointer: Value, offset: Value) -> Value:
        """Move a pointer by elements; both are scalars or tiles of one shape."""
        if pointer.shape != offset.shape:
            raise TileError(f"ptr_add needs one shape, but got {pointer.type} and {offset.type}")
        return self._one(Code.PTR_ADD, (pointer, offset), pointer.type)

    def load(
        self,
        pointer: Value,
        mask: Value | None = None,
        other: Value | None = None,
        *,
        order: Mapping[str, Attribute] | None = None,
    ) -> Value:
        """Load from a pointer, or from each of a tile of pointers; ``order`` has the attributes of that name."""
        element = element_of(pointer.type)
        if not isinstance(element, Pointer):
            raise TileError(f"load needs pointers, but got {pointer.type}")
        given = [v for v in (mask, other) if v is not None]
        type_ = with_shape(pointer.shape, element.element)
        return self._one(Code.LOAD, (pointer, *given), type_, **(order or {}))

    def store(
        self,
        pointer: Value,
        value: Value,
        mask: Value | None = None,
        *,
        order: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Store; of lanes with one address, the last in row-major order wins. ``order``: as of ``load``."""
        operands = (pointer, value) if mask is None else (pointer, value, mask)
        self.append(Code.STORE, operands, (), dict(order or {}))

    def atomic_rmw(
        self,
        kind: ops.Rmw,
        pointer: Value,
        value: Value,
        mask: Value | None = None,
        *,
        order: Mapping[str, Attribute] | None = None,
    ) -> Value:
        """Read, modify and write each element atomically; return the old values. ``order``: as of ``load``."""
        operands = (pointer, value) if mask is None else (pointer, value, mask)
        return self._one(Code.ATOMIC_RMW, operands, value.type, kind=kind.value, **(order or {}))

    def atomic_cas(
        self,
        pointer: Value,
        expected: Value,
        new: Value,
        *,
        order: Mapping[str, Attribute] | None = None,
    ) -> Value:
        """Write ``new`` where memory holds ``expected``, atomically; return the old values."""
        self._same(expected, new)
        return self._one(Code.ATOMIC_CAS, (pointer, expected, new), new.type, **(order or {}))

    # ---- control

    @contextlib.contextmanager
    def for_(
        self, start: Value, end: Value, step: Value, carried: Sequence[Value]
    ) -> Iterator[Loop]:
        """Build a loop; the body must end with :meth:`yield_` of as many values as are carried.

        The body runs while ``index < end`` (for a negative step: ``>``). After the ``with`` the
        ``results`` of what it gave are the values that the loop leaves.
        """
        index = Value(start.type)
        loop = Loop(index, [Value(v.type) for v in carried])
        region = Region([index, *loop.carried])
        with self.into(region):
            yield loop
        types = [v.type for v in carried]
        operation = self.append(Code.FOR, (start, end, step, *carried), types, {}, (region,))
        loop.results = list(operation.results)

    def while_(self, carried: Sequence[Value], before: Region, after: Region) -> tuple[Value, ...]:
        """Append a WHILE of two finished regions."""
        passed = [v.type for v in before.terminator.operands[1:]]
        return self.append(Code.WHILE, carried, passed, {}, (before, after)).results

    def if_(self, condition: Value, then: Region, other: Region) -> tuple[Value, ...]:
        """Append an IF of two finished regions."""
        types = [v.type for v in then.terminator.operands]
        return self.append(Code.IF, (condition,), types, {}, (then, other)).results

    def yield_(self, *values: Value) -> None:
        """End a region."""
        self.append(Code.YIELD, values)

    def call(self, callee: Function, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Call another function of the module."""
        attributes = {"callee": callee.name}
        return self.append(Code.CALL, arguments, callee.results, attributes).results

    def return_(self, *values: Value) -> None:
        """End a function's body."""
        self.append(Code.RETURN, values)

    # ---- along an axis

    def _combining(self, tiles: Sequence[Value], combine: Callable[..., Sequence[Value]]) -> Region:
        elements = [element_of(t.type) for t in tiles]
        arguments = [Value(e) for e in (*elements, *elements)]
        region = Region(arguments)
        with self.into(region):
            self.yield_(*combine(*arguments))
        found = [v.type for v in region.terminator.operands]
        if found != elements:
            raise TileError(
                f"a combine function of {elements} must give the same, but gives {found}"
            )
        return region

    def reduce(
        self, tiles: Sequence[Value], axis: int, combine: Callable[..., Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Combine the elements along an axis, in any order.

        Args:
            tiles: One or more of the same shape, which are reduced together.
            axis: From 0.
            combine: Called once with scalar values (those of one side, then those of the other); builds
                and returns as many values of the same types.
        """
        region = self._combining(tiles, combine)
        shape = tiles[0].shape[:axis] + tiles[0].shape[axis + 1 :]
        types = [with_shape(shape, element_of(t.type)) for t in tiles]
        return self.append(Code.REDUCE, tiles, types, {"axis": axis}, (region,)).results

    def scan(
        self,
        tiles: Sequence[Value],
        axis: int,
        combine: Callable[..., Sequence[Value]],
        reverse: bool = False,
    ) -> tuple[Value, ...]:
        """Combine each element with all before it along an axis (``reverse``: after it), itself included."""
        region = self._combining(tiles, combine)
        types = [t.type for t in tiles]
        attributes = {"axis": axis, "reverse": reverse}
        return self.append(Code.SCAN, tiles, types, attributes, (region,)).results

    def histogram(self, values: Value, bins: int, mask: Value | None = None) -> Value:
        """Count the elements that equal 0, 1, ... ``bins - 1``; others are not counted."""
        operands = (values,) if mask is None else (values, mask)
        return self._one(Code.HISTOGRAM, operands, Tile((bins,), I32), bins=bins)

    def sort(self, values: Value) -> Value:
        """Sort unsigned integers along the last axis, the smallest first."""
        return self._one(Code.SORT, (values,), values.type)

    def dot(self, a: Value, b: Value, c: Value, native: bool = False) -> Value:
        """Compute ``a @ b + c``: floats accumulate in c's dtype (at least fp32), integers in i32.

        ``native``: bf16 by the CPU's own instruction, if it has one.
        """
        *batch, m, k = a.shape
        *_, n = b.shape
        if b.shape != (*batch, k, n) or c.shape != (*batch, m, n):
            raise TileError(f"dot cannot multiply {a.type} by {b.type} and add {c.type}")
        if native:
            return self._one(Code.DOT, (a, b, c), c.type, native=True)
        return self._one(Code.DOT, (a, b, c), c.type)

    # ---- order and diagnosis

    def barrier(self, *, fence: bool = False) -> None:
        """Order all memory operations of the program before it before those after it.

        ``fence``: Also for other programs, which see that through relaxed atomic operations.
        """
        self.append(Code.BARRIER, (), (), {"fence": True} if fence else {})

    def join_tokens(self, *values: Value) -> Value:
        """Return a token that is available once the values are."""
        return self._one(Code.JOIN_TOKENS, values, Token())

    def after(self, value: Value, token: Value) -> Value:
        """Return the value, available no earlier than the token."""
        return self._one(Code.AFTER, (value, token), value.type)

    def assert_(
        self, condition: Value, message: str, shown: Mapping[str, Value] | None = None
    ) -> None:
        """Stop the program with an error unless every element is true.

        Args:
            condition: A condition or a tile of them, i1.
            message: Text of the error.
            shown: What the error shows by name, at the first element that is false: scalars, and tiles of the
                condition's shape.
        """
        attributes: dict[str, Any] = {"message": message}
        if shown:
            attributes["names"] = "\n".join(shown)
        self.append(Code.ASSERT, (condition, *(shown or {}).values()), (), attributes)

    def observe(self, site: int, observer: Value, values: Sequence[Value] = ()) -> None:
        """Tell an observer of ``emu.tile.observing``, whose number is an i64, the values at a site of this program."""
        self.append(Code.OBSERVE, (observer, *values), (), {"site": site})

    def tell_native(self, site: int, function: Value, values: Sequence[Value]) -> None:
        """Call native code of ``emu.tile.observing``, whose address is an i64, with the values at a site of this program."""
        attributes = {"site": site, "native": True}
        self.append(Code.OBSERVE, (function, *values), (), attributes)

    def print_(self, prefix: str, values: Sequence[Value], hex_: bool = False) -> None:
        """Print the values of this program."""
        self.append(Code.PRINT, values, (), {"prefix": prefix, "hex": hex_})
