"""Groups as recipes, and what a launch of one needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.pypto.native.batch import Input, Scalar, Spot, Step, Store
from emu.pypto.native.grouping import Group
from emu.pypto.native.layout import Dimensions, join_axes
from emu.pypto.native.lowering import LOWERINGS, Facts, Operand, tile_dtype
from emu.tile.fusion import REDUCE, Launch, Node, Recipe, grid_of
from emu.tile.types import DType

NEUTRAL = {"pypto.add": -0.0, "pypto.maximum": -np.inf, "pypto.minimum": np.inf}
"""What a reduction of floats begins with: 0.0 would make 0.0 of a sum of -0.0."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address that a kernel gets.

    Attributes:
        buffer: Number of the buffer; of a number of the batch its place among them.
        offset: Bytes from the buffer's first element.
        is_number: Whether it is a number of the batch.
    """

    buffer: int
    offset: int = 0
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A group as a kernel.

    Attributes:
        recipe: What it computes.
        launch: Extents and strides.
        pointers: Addresses, inputs first.
    """

    recipe: Recipe
    launch: Launch
    pointers: tuple[Pointer, ...]


def write(
    group: Group, steps: Sequence[Step], stores: Sequence[Store], outside: frozenset[int]
) -> Written:
    """Write a group.

    Args:
        group: The group.
        steps: All ops of the batch.
        stores: Memory of its buffers.
        outside: Buffers whose memory something outside of the group reads.
    """
    return _Writer(group, steps, stores).write(outside)


class _Writer:
    def __init__(self, group: Group, steps: Sequence[Step], stores: Sequence[Store]) -> None:
        self._group, self._stores = group, stores
        self._steps = [steps[number] for number in group.steps]
        self._nodes: list[Node] = []
        self._found: dict[object, int] = {}
        self._values: dict[int, int] = {}
        self._outputs: dict[int, Spot] = {}
        self._pointers: list[Pointer] = []
        self._dtypes: list[str] = []
        self._numbers: list[int] = []
        self._dimensions = self._join()

    def write(self, outside: frozenset[int]) -> Written:
        for step, level in zip(self._steps, self._group.levels, strict=True):
            (out,) = step.outputs
            at_rows = level and step.operation.kind == "map"
            operands = [
                self._operand(x, at_rows, at_rows and self._lacks_axis(out)) for x in step.inputs
            ]
            result = tile_dtype(self._stores[out.buffer].dtype)
            lower = LOWERINGS[step.operation.name]
            self._values[out.buffer] = lower(self, operands, Facts(result, level, step.attributes))
            self._outputs[out.buffer] = out
        dimensions = self._dimensions
        loop = dimensions.loop()
        places, targets, strides = [], [], []
        kept = [buffer for buffer in self._outputs if buffer in outside]
        for buffer in kept:
            spot = self._outputs[buffer]
            found = dimensions.strides(self._strides(spot, self._lacks_axis(spot)))
            places.append(_steps(found))
            strides += [n for n in found if n not in (0, 1)]
            targets.append(self._pointer(spot))
        recipe = Recipe(
            loop,
            tuple(self._nodes),
            tuple(self._dtypes),
            tuple([self._values[buffer] for buffer in kept]),
            tuple(places),
        )
        pairs = zip(dimensions.extents, loop.extents, strict=True)
        passed = [extent for extent, known in pairs if not known]
        launch = Launch(grid_of(loop, dimensions.extents), (*passed, *self._numbers, *strides))
        return Written(recipe, launch, (*self._pointers, *targets))

    # What lowerings call

    def add(
        self, kind: str, dtype: DType, operands: Sequence[int], is_reduced: bool = False
    ) -> int:
        """Add a node; return its number."""
        return self._add(Node(kind, str(dtype), tuple(operands), is_reduced))

    def constant(self, value: float, dtype: DType) -> int:
        """Add a number; return its number."""
        bits = np.asarray(value).astype(dtype.numpy).tobytes().hex()
        return self._add(Node("constant", str(dtype), word=bits))

    @property
    def row_length(self) -> int:
        """Extent of what is reduced."""
        assert self._group.reduced is not None
        return self._group.space[self._group.reduced]

    def reduce(self, word: str, dtype: DType, operand: int) -> int:
        """Add a reduction; return its number."""
        start: float | int = NEUTRAL[word]
        if not dtype.is_float:
            low, high = dtype.limits
            start = {"pypto.add": 0, "pypto.maximum": low, "pypto.minimum": high}[word]
        return self._add(
            Node(REDUCE, str(dtype), (operand, self.constant(start, dtype)), True, word)
        )

    def _add(self, node: Node) -> int:
        number = self._found.get(node)
        if number is None:
            self._found[node] = number = len(self._nodes)
            self._nodes.append(node)
        return number

    # Operands

    def _operand(self, x: Input, is_reduced: bool, lacks_axis: bool) -> Operand:
        if isinstance(x, Scalar):
            dtype = tile_dtype(x.dtype)
            pointer = Pointer(x.number, is_number=True)
            return self._load(pointer, dtype, (0,) * len(self._dimensions.axes), is_reduced), dtype
        dtype = tile_dtype(self._stores[x.buffer].dtype)
        if x.buffer in self._values:
            return self._values[x.buffer], dtype
        strides = self._dimensions.strides(self._strides(x, lacks_axis))
        return self._load(self._pointer(x), dtype, strides, is_reduced), dtype

    def _load(
        self, pointer: Pointer, dtype: DType, strides: tuple[int, ...], is_reduced: bool
    ) -> int:
        key = (pointer, strides, is_reduced)
        number = self._found.get(key)
        if number is None:
            node = Node(
                "load", str(dtype), (self._input(pointer, dtype),), is_reduced, "", _steps(strides)
            )
            self._found[key] = number = len(self._nodes)
            self._nodes.append(node)
            self._numbers += [n for n in strides if n not in (0, 1)]
        return number

    def _input(self, pointer: Pointer, dtype: DType) -> int:
        if pointer not in self._pointers:
            self._pointers.append(pointer)
            self._dtypes.append(str(dtype))
        return self._pointers.index(pointer)

    def _pointer(self, spot: Spot) -> Pointer:
        store = self._stores[spot.buffer]
        assert store.strides is not None
        first = sum(a * n for a, n in zip(spot.low, store.strides, strict=True))
        return Pointer(spot.buffer, first * store.dtype.itemsize)

    def _lacks_axis(self, out: Spot) -> bool:
        """Return whether an output has an element per row, and no axis where the space is reduced."""
        return len(out.extent) < len(self._group.space)

    def _strides(self, spot: Spot, lacks_axis: bool) -> tuple[int, ...]:
        """Return strides along the axes of the space: 0 where an operand is broadcast.

        Args:
            spot: What is read or written.
            lacks_axis: Whether its axes are those of the space but the reduced one.
        """
        strides = self._stores[spot.buffer].strides
        assert strides is not None
        pairs = zip(spot.extent, strides, strict=True)
        found = [stride if n != 1 else 0 for n, stride in pairs]
        rank = len(self._group.space) - lacks_axis
        found = [0] * (rank - len(found)) + found
        if lacks_axis:
            assert self._group.reduced is not None
            found.insert(self._group.reduced, 0)
        return tuple(found)

    def _join(self) -> Dimensions:
        group = self._group
        places = []
        for step, level in zip(self._steps, group.levels, strict=True):
            (out,) = step.outputs
            lacks_axis = level and self._lacks_axis(out)
            places.append(self._strides(out, lacks_axis))
            reads_less = lacks_axis and step.operation.kind == "map"
            places += [self._strides(x, reads_less) for x in step.inputs if isinstance(x, Spot)]
        return join_axes(group.space, group.reduced, places)


def _steps(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple([n if n in (0, 1) else 2 for n in strides])
