"""Recipes as functions of the tile IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emu.tile.fusion.emitters import ARGUMENTS, Emit, Facts
from emu.tile.fusion.recipe import READS, REDUCE, Node, Recipe
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code
from emu.tile.types import DTYPES, I1, I64, DType, Pointer, with_shape


def module_of(recipe: Recipe, emitters: Mapping[str, Emit]) -> Module:
    """Return the kernel of a recipe.

    Its parameters are the addresses of the inputs and outputs, the extents that the recipe leaves open, and for each load (and output)
    its offset and strides, where it has any besides 0 and 1.
    """
    return _Kernel(recipe, emitters).build()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an input or output is read or written: a number per dimension of the loop.

    Attributes:
        offset: Place of the first element; None for 0.
        strides: Strides; 0 and 1 as they are.
    """

    offset: Value | None
    strides: tuple[Value | int, ...]


class _Kernel:
    def __init__(self, recipe: Recipe, emitters: Mapping[str, Emit]) -> None:
        self._recipe, self._emitters = recipe, emitters
        self._loop = recipe.loop
        self._rank = len(recipe.loop.labels)
        nodes = recipe.nodes
        pointers = [Value(Pointer(DTYPES[d]), name=f"x{n}") for n, d in enumerate(recipe.inputs)]
        results = [
            Value(Pointer(DTYPES[nodes[number].dtype]), name=f"y{n}")
            for n, number in enumerate(recipe.outputs)
        ]
        self._pointers, self._results = pointers, results
        self._numbers: list[Value] = []
        self._b = Builder(Region([]))
        self._extents = [
            self._b.constant(known, I64) if known else self._number(f"n{axis}")
            for axis, known in enumerate(recipe.loop.extents)
        ]
        self._places = {
            n: self._place(f"{n}", node.steps, node.has_offset)
            for n, node in enumerate(nodes)
            if node.kind in READS
        }
        self._targets = [
            self._place(f"y{n}", steps, False) for n, steps in enumerate(recipe.places)
        ]
        self._coordinates: list[Value | None] = [None] * self._rank
        self._tile_axes = [a for a in range(self._rank) if self._loop.tile[a]]
        self._masks: dict[tuple[int, ...], Value | None] = {}
        self._values: dict[int, Value] = {}

    def build(self) -> Module:
        """Return the module."""
        self._find_coordinates()
        if self._loop.kind == "columns":
            self._columns()
        else:
            self._once()
        self._b.return_()
        self._b.region.arguments = [*self._pointers, *self._results, *self._numbers]
        return Module({"fused": Function("fused", self._b.region)})

    def _number(self, name: str) -> Value:
        self._numbers.append(Value(I64, name=name))
        return self._numbers[-1]

    def _place(self, name: str, steps: Sequence[int], has_offset: bool) -> _Place:
        offset = self._number(f"o{name}") if has_offset else None
        strides = tuple(
            step if step in (0, 1) else self._number(f"s{name}_{axis}")
            for axis, step in enumerate(steps)
        )
        return _Place(offset, strides)

    # Where this program is

    def _find_coordinates(self) -> None:
        """Divide the program's numbers into coordinates: of blocks along x, of single elements along y."""
        b, loop = self._b, self._loop
        block = b.cast(b.program_id(0), I64)
        rest = b.cast(b.program_id(1), I64)
        single = [a for a in range(self._rank) if not loop.tile[a] and loop.labels[a] != "r"]
        for axis in reversed(single):
            if axis == single[0]:
                self._coordinates[axis] = rest
                break
            extent = self._extents[axis]
            following = b.binary(Code.DIV, rest, extent)
            used = b.binary(Code.MUL, following, extent)
            self._coordinates[axis] = b.binary(Code.SUB, rest, used)
            rest = following
        for axis in self._tile_axes:
            if not loop.extents[axis] and self._is_row_axis(axis):
                start = b.constant(loop.tile[axis], I64)
                self._coordinates[axis] = b.binary(Code.MUL, block, start)

    def _is_row_axis(self, axis: int) -> bool:
        return self._loop.labels[axis] != "r"

    def _shape(self, is_reduced: bool) -> tuple[int, ...]:
        """Return the shape of the tiles of values, or of those with an element per row."""
        return tuple(
            self._loop.tile[a] for a in self._tile_axes if not is_reduced or self._is_row_axis(a)
        )

    def _lane(self, axis: int) -> tuple[Value, int]:
        """Return the numbers from 0 along an axis of the tile, as a tile with extents of 1 beside it, and where it stands."""
        place = self._tile_axes.index(axis)
        line = self._b.cast(self._b.arange(0, self._loop.tile[axis]), I64)
        shape = [1] * len(self._tile_axes)
        shape[place] = self._loop.tile[axis]
        return self._b.reshape(line, shape), place

    def _mask(
        self, shape: tuple[int, ...], axes: Sequence[int], extra: dict[int, Value]
    ) -> Value | None:
        """Return the mask of a tile that has these axes: False beyond the extent of the blocked one."""
        loop, b = self._loop, self._b
        blocked = [a for a in axes if not loop.extents[a]]
        if not blocked or not loop.is_ragged:
            return None
        (axis,) = blocked
        key = tuple(axes)
        if key not in self._masks:
            lane, _ = self._lane(axis)
            start = extra.get(axis, self._coordinates[axis])
            assert start is not None
            place = b.binary(Code.ADD, b.splat(start, lane.shape), lane)
            inside = b.compare(Code.LT, place, b.splat(self._extents[axis], lane.shape))
            self._masks[key] = b.broadcast(inside, shape)
        return self._masks[key]

    # Reading and writing

    def _offsets(self, place: _Place, extra: dict[int, Value]) -> tuple[Value, list[int]]:
        """Return a place as offsets: a tile of the axes along which it moves, extents 1 elsewhere, or a scalar."""
        b = self._b
        base = place.offset if place.offset is not None else b.constant(0, I64)
        moving: list[int] = []
        for axis, stride in enumerate(place.strides):
            if stride == 0:
                continue
            coordinate = extra.get(axis, self._coordinates[axis])
            if coordinate is not None:
                base = b.binary(Code.ADD, base, self._times(coordinate, stride))
            if axis in self._tile_axes:
                moving.append(axis)
        if not moving:
            return base, moving
        shape = tuple(self._loop.tile[a] if a in moving else 1 for a in self._tile_axes)
        offsets = b.splat(base, shape)
        for axis in moving:
            lane, _ = self._lane(axis)
            stride = place.strides[axis]
            if isinstance(stride, Value):
                lane = b.binary(Code.MUL, lane, b.splat(stride, lane.shape))
            offsets = b.binary(Code.ADD, offsets, b.broadcast(lane, shape))
        return offsets, moving

    def _times(self, x: Value, stride: Value | int) -> Value:
        return self._b.binary(Code.MUL, x, stride) if isinstance(stride, Value) else x

    def _shaped(self, x: Value, is_reduced: bool) -> Value:
        """Bring a scalar, or a tile with extents of 1, to the shape of a level."""
        shape = self._shape(is_reduced)
        if not x.shape:
            return self._b.splat(x, shape)
        if len(x.shape) > len(shape):
            kept = [
                n
                for n, a in zip(x.shape, self._tile_axes, strict=True)
                if not is_reduced or self._is_row_axis(a)
            ]
            x = self._b.reshape(x, kept) if kept else self._b.reduce([x], 0, lambda p, q: [p])[0]
        return self._b.broadcast(x, shape)

    def _read(self, number: int, node: Node, extra: dict[int, Value]) -> Value:
        """Load an input, or count."""
        b = self._b
        offsets, moving = self._offsets(self._places[number], extra)
        if node.kind == "iota":
            return self._shaped(b.cast(offsets, DTYPES[node.dtype]), node.is_reduced)
        pointer = self._pointers[node.operands[0]]
        if not moving:
            return self._shaped(b.load(b.ptr_add(pointer, offsets)), node.is_reduced)
        mask = self._mask(offsets.shape, moving, extra)
        found = b.load(b.ptr_add(b.splat(pointer, offsets.shape), offsets), mask)
        return self._shaped(found, node.is_reduced)

    def _write(self, which: int, extra: dict[int, Value]) -> None:
        """Store an output."""
        b, number = self._b, self._recipe.outputs[which]
        value = self._values[number]
        place = self._targets[which] if self._targets else self._contiguous(number)
        offsets, moving = self._offsets(place, extra)
        pointer = self._results[which]
        if not moving:
            b.store(b.ptr_add(pointer, offsets), value)
            return
        full = tuple(self._loop.tile[a] for a in moving)
        offsets = b.reshape(offsets, full)
        shape = tuple(self._loop.tile[a] if a in moving else 1 for a in self._tile_axes)
        mask = self._mask(shape, moving, extra)
        if mask is not None:
            mask = b.reshape(mask, full)
        b.store(b.ptr_add(b.splat(pointer, full), offsets), value, mask)

    def _contiguous(self, number: int) -> _Place:
        """Return the place of an output without gaps."""
        b, node = self._b, self._recipe.nodes[number]
        axes = [a for a in range(self._rank) if not node.is_reduced or self._is_row_axis(a)]
        strides: list[Value | int] = [0] * self._rank
        step: Value | int = 1
        for axis in reversed(axes):
            strides[axis] = step
            if axis != axes[0]:
                extent = self._extents[axis]
                step = extent if isinstance(step, int) else b.binary(Code.MUL, step, extent)
        return _Place(None, tuple(strides))

    # Computing

    def _compute(self, number: int, extra: dict[int, Value]) -> None:
        b, node = self._b, self._recipe.nodes[number]
        if node.kind in READS:
            self._values[number] = self._read(number, node, extra)
            return
        dtype = DTYPES[node.dtype]
        operands = [self._operand(o, node.is_reduced) for o in node.operands]
        self._values[number] = self._emitters[node.kind](b, Facts(dtype, node.word), operands)

    def _operand(self, number: int, is_reduced: bool) -> Value:
        """Return the value of a node in the shape of a level."""
        b, node = self._b, self._recipe.nodes[number]
        shape = self._shape(is_reduced)
        if node.kind == "constant":
            dtype = DTYPES[node.dtype]
            return b.constant(constant_of(node), with_shape(shape, dtype))
        value = self._values[number]
        if value.shape == shape:
            return value
        if value.shape and not is_reduced:
            # A value of rows: its axes come first.
            value = b.reshape(value, (*value.shape, *[1] * (len(shape) - len(value.shape))))
            return b.broadcast(value, shape)
        return b.splat(value, shape)

    def _start(self, number: int) -> Value:
        """Return the initial value of a reduction as a scalar."""
        node = self._recipe.nodes[number]
        if node.kind == "constant":
            return self._b.constant(constant_of(node), DTYPES[node.dtype])
        pointer = self._pointers[node.operands[0]]
        place = self._places[number]
        offset = place.offset if place.offset is not None else self._b.constant(0, I64)
        return self._b.load(self._b.ptr_add(pointer, offset))

    def _once(self) -> None:
        """Emit a loop whose program computes each tile once, reductions included."""
        for number, node in enumerate(self._recipe.nodes):
            if node.kind == "constant" or self._is_start(number):
                continue
            if node.kind == REDUCE:
                self._values[number] = self._reduced(node)
            else:
                self._compute(number, {})
        for which in range(len(self._recipe.outputs)):
            self._write(which, {})

    def _is_start(self, number: int) -> bool:
        """Return whether a node is read as an initial value only."""
        users = [n for n in self._recipe.nodes if number in n.operands and n.kind != "load"]
        return bool(users) and all(
            u.kind == REDUCE and number not in u.operands[: len(u.operands) // 2] for u in users
        )

    def _reduced(self, node: Node) -> Value:
        """Reduce the rows of tiles."""
        values, combine = self._reducible(node), combiner(node.word, self._emitters)
        rows = len(self._shape(True))
        while len(values[0].shape) > rows:
            values = self._b.reduce(
                values, len(values[0].shape) - 1, lambda *pairs: combine(self._b, *pairs)
            )
        return self._with_start(node, values)

    def _reducible(self, node: Node) -> Sequence[Value]:
        """Return the tiles that a reduction reduces together."""
        return [self._operand(n, False) for n in node.operands[: len(node.operands) // 2]]

    def _starts(self, node: Node) -> list[Value]:
        return [self._start(n) for n in node.operands[len(node.operands) // 2 :]]

    def _with_start(self, node: Node, values: Sequence[Value]) -> Value:
        """Combine what was reduced with the initial value; return what is used of it."""
        starts = [self._b.splat(x, values[0].shape) for x in self._starts(node)]
        return combiner(node.word, self._emitters)(self._b, *starts, *values)[-1]

    # Reductions that are walked along

    def _columns(self) -> None:
        """Emit a loop along what is reduced, and what follows from the results behind it."""
        b, nodes = self._b, self._recipe.nodes
        reductions = [n for n, node in enumerate(nodes) if node.kind == REDUCE]
        axes = [a for a in range(self._rank) if self._loop.labels[a] == "r"]
        kept = dict(self._masks), dict(self._values)
        rounds, firsts = self._rounds(axes), [self._first(nodes[n]) for n in reductions]
        starts = [x for first in firsts for x in first]
        with b.for_(b.constant(0, I64), rounds, b.constant(1, I64), starts) as loop:
            extra = self._walked(loop.index, axes)
            for number, node in enumerate(nodes):
                if node.kind != "constant" and not node.is_reduced:
                    self._compute(number, extra)
            carried = iter(loop.carried)
            totals = [
                x
                for number, first in zip(reductions, firsts, strict=True)
                for x in self._with_next([next(carried) for _ in first], nodes[number], extra)
            ]
            for which, number in enumerate(self._recipe.outputs):
                if not nodes[number].is_reduced:
                    self._write(which, extra)
            b.yield_(*totals)
        # What the body has computed is not visible behind it.
        self._masks, self._values = kept
        left = iter(loop.results)
        for number, first in zip(reductions, firsts, strict=True):
            self._values[number] = self._total(nodes[number], [next(left) for _ in first])
        for number, node in enumerate(nodes):
            if node.is_reduced and number not in reductions and not self._is_start(number):
                self._compute(number, {})
        for which, number in enumerate(self._recipe.outputs):
            if nodes[number].is_reduced:
                self._write(which, {})

    def _rounds(self, axes: Sequence[int]) -> Value:
        """Return the number of rounds of the loop along what is reduced."""
        b = self._b
        found = self._steps_along(axes[0])
        for axis in axes[1:]:
            found = b.binary(Code.MUL, found, self._steps_along(axis))
        return found

    def _steps_along(self, axis: int) -> Value:
        """Return how many steps lead along a dimension: single elements, or blocks."""
        b, extent, block = self._b, self._extents[axis], self._loop.tile[axis]
        if not block:
            return extent
        behind = b.binary(Code.ADD, extent, b.constant(block - 1, I64))
        return b.binary(Code.DIV, behind, b.constant(block, I64))

    def _walked(self, index: Value, axes: Sequence[int]) -> dict[int, Value]:
        """Return the coordinates along what is reduced."""
        b, found, rest = self._b, {}, index
        for axis in reversed(axes):
            here = rest
            if axis != axes[0]:
                steps = self._steps_along(axis)
                rest = b.binary(Code.DIV, here, steps)
                here = b.binary(Code.SUB, here, b.binary(Code.MUL, rest, steps))
            if self._loop.tile[axis]:
                here = b.binary(Code.MUL, here, b.constant(self._loop.tile[axis], I64))
            found[axis] = here
        return found

    def _first(self, node: Node) -> list[Value]:
        """Return what a reduction begins with: the initial value, or where lanes are reduced in the end a neutral one."""
        b, shape = self._b, self._shape(False)
        if self._loop.labels.endswith("r") and node.word not in ARGUMENTS:
            dtype = DTYPES[node.dtype]
            return [b.constant(neutral(node.word, dtype), with_shape(shape, dtype))]
        return [b.splat(x, shape) for x in self._starts(node)]

    def _with_next(
        self, carried: Sequence[Value], node: Node, extra: dict[int, Value]
    ) -> Sequence[Value]:
        """Combine what was reduced with the elements of this round."""
        found = combiner(node.word, self._emitters)(self._b, *carried, *self._reducible(node))
        if not self._loop.labels.endswith("r"):
            return found
        mask = self._mask(found[0].shape, self._tile_axes, extra)
        if mask is None:
            return found
        return [self._b.select(mask, x, y) for x, y in zip(found, carried, strict=True)]

    def _total(self, node: Node, carried: Sequence[Value]) -> Value:
        """Return the result of a reduction."""
        if not self._loop.labels.endswith("r"):
            return carried[-1]
        combine = combiner(node.word, self._emitters)
        totals = self._b.reduce(carried, 0, lambda *pairs: combine(self._b, *pairs))
        return self._with_start(node, totals)


Combine = Callable[..., list[Value]]


def combiner(name: str, emitters: Mapping[str, Emit]) -> Combine:
    """Return what combines two elements of a reduction: called with the values of one side, and those of the other."""

    def combine(b: Builder, x: Value, y: Value) -> list[Value]:
        return [emitters[name](b, Facts(x.dtype), [x, y])]

    if name not in ARGUMENTS:
        return combine
    relation = Code.GT if name == "argmax" else Code.LT

    def choose(b: Builder, x: Value, i: Value, y: Value, j: Value) -> list[Value]:
        """Take the extremum, of equal ones the first; a NaN is more than any number."""
        better, equal = b.compare(relation, x, y), b.compare(Code.EQ, x, y)
        if x.dtype.is_float:
            nan = b.compare(Code.NE, x, x)
            numbers = b.compare(Code.EQ, y, y)
            better = b.binary(Code.OR, better, b.binary(Code.AND, nan, numbers))
            both = b.binary(Code.AND, nan, b.unary(Code.NOT, numbers))
            equal = b.binary(Code.OR, equal, both)
        earlier = b.binary(Code.AND, equal, b.compare(Code.LT, i, j))
        first = b.binary(Code.OR, better, earlier)
        return [b.select(first, x, y), b.select(first, i, j)]

    return choose


def neutral(name: str, dtype: DType) -> bool | int | float:
    """Return the element that changes no other."""
    word = name.rpartition(".")[2]
    if dtype == I1:
        return word in ("and", "multiply", "minimum")
    if word in ("maximum", "minimum"):
        if dtype.is_float:
            return float("-inf") if word == "maximum" else float("inf")
        return dtype.limits[word == "minimum"]
    if word == "add":
        return -0.0 if dtype.is_float else 0  # 0.0 would make 0.0 of a sum of -0.0
    ones = -1 if dtype.is_signed else dtype.limits[1]
    return {"multiply": 1, "and": ones, "or": 0, "xor": 0}[word]


def constant_of(node: Node) -> bool | int | float:
    """Return the value of a constant."""
    dtype = DTYPES[node.dtype]
    element = np.frombuffer(bytes.fromhex(node.word), dtype.numpy)[0]
    if dtype == I1:
        return bool(element)
    return float(element) if dtype.is_float else int(element)
