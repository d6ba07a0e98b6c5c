"""A builder of the tile IR that evaluates each operation when it is appended.

The reference evaluator says what an operation means; here it gets one operation at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.tile import ir
from emu.tile.assertions import find_failure, names_of, with_details
from emu.tile.objects import Attribute
from emu.tile.ops import ATOMIC, ELEMENTWISE, MEMORY, TERMINATORS, Code
from emu.tile.reference.along import lane_by_lane
from emu.tile.reference.elementwise import numpy_dtype
from emu.tile.reference.interpreter import Program
from emu.tile.types import Pointer, Type, element_of, with_shape
from emu.triton.interpreter import compiled_order, native, spinning
from emu.triton.interpreter.errors import LanesNeeded
from emu.triton.interpreter.memory import Memory
from emu.triton.interpreter.ranges import Counter
from emu.triton.interpreter.spinning import Spins
from emu.triton.interpreter.tensors import Array, Known
from emu.triton.language.constants import unwrap
from emu.triton.language.shapes import wrapped
from emu.triton.language.values import tensor

Triple = tuple[int, int, int]
Print = Callable[[Triple, str, Sequence[ir.Value], Sequence[Array], bool], None]

_NAMES = {Code.LOAD: "load", Code.STORE: "store"}


class _Frame(dict[ir.Value, Array]):
    """Values of a recorded region; those that it uses from before it are known."""

    def __missing__(self, value: ir.Value) -> Array:
        return _array_of(value)


@dataclass(frozen=True)
class _Regions(Program):
    """Program whose regions' operations are evaluated as all others.

    Attributes:
        evaluate_one: Evaluates one, of its operands and the values of the region.
    """

    evaluate_one: Callable[[ir.Operation, list[Array], dict[ir.Value, Array]], Sequence[Array]]

    def operation(
        self, operation: ir.Operation, operands: list[Array], frame: dict[ir.Value, Array]
    ) -> Sequence[Array]:
        """Run one operation."""
        return self.evaluate_one(operation, operands, frame)


class Evaluator(ir.Builder):
    """Builder whose values are known: appending an operation evaluates it.

    Args:
        number: The program's number.
        grid: Extents of the grid.
        memory: What it may touch.
        print_: Prints the values of ``device_print``.
        spins: The ``while`` loops that the program is in; None where nothing is reported of them.
    """

    def __init__(
        self,
        number: Triple,
        grid: Triple,
        memory: Memory,
        print_: Print,
        spins: Spins | None = None,
    ) -> None:
        super().__init__()
        self.number = number
        self._program = _Regions(ir.Module(), number, grid, _write_nothing, self._evaluated)
        self._memory = memory
        self._print = print_
        self.spins = spins
        self._recorded = 0

    @contextlib.contextmanager
    def into(self, region: ir.Region) -> Iterator[ir.Region]:
        """Record the operations of a region inside the block, for the operation that it becomes a part of."""
        self._recorded += 1
        try:
            with super().into(region):
                yield region
        finally:
            self._recorded -= 1

    def while_(
        self, carried: Sequence[ir.Value], before: ir.Region, after: ir.Region
    ) -> tuple[ir.Value, ...]:
        """Evaluate a loop of two finished regions."""
        if self._recorded:
            return super().while_(carried, before, after)
        types = [v.type for v in before.terminator.operands[1:]]
        arrays: Sequence[Array] = [_array_of(v) for v in carried]
        while True:
            goes_on, *passed = self._run(before, arrays)
            if not goes_on:
                return tuple([Known(t, a) for t, a in zip(types, passed, strict=True)])
            arrays = self._run(after, passed)

    def _run(self, region: ir.Region, arguments: Sequence[Array]) -> list[Array]:
        """Evaluate a recorded region; return what it yields."""
        return self._program.region(region, arguments, _Frame())

    def _evaluated(
        self, operation: ir.Operation, arrays: list[Array], frame: dict[ir.Value, Array]
    ) -> Sequence[Array]:
        """Evaluate an operation of a recorded region."""
        if operation.code in MEMORY:
            self._check(operation, arrays)
        if operation.code in (Code.PRINT, Code.ASSERT):
            self._report(operation, arrays)
            return ()
        return [np.asarray(r) for r in self._results(operation, arrays, frame)]

    def map_scalars(
        self, function: Callable[[list[tensor]], Sequence[tensor]], tiles: Sequence[tensor]
    ) -> list[tensor]:
        """Apply a function of scalars to each element of tiles, one after the other."""
        arrays = [_array_of(t.handle) for t in tiles]
        found: list[Sequence[tensor]] = []
        for lane in np.ndindex(arrays[0].shape):
            scalars = [
                tensor(
                    Known(element_of(t.handle.type), np.asarray(a[lane]), _origin([t.handle])),
                    t.dtype,
                )
                for t, a in zip(tiles, arrays, strict=True)
            ]
            found.append(function(scalars))
        results = []
        for n, first in enumerate(found[0]):
            values = np.array([_array_of(each[n].handle) for each in found])
            type_ = with_shape(arrays[0].shape, element_of(first.handle.type))
            results.append(wrapped(Known(type_, values.reshape(arrays[0].shape)), first.dtype))
        return results

    def append(
        self,
        code: Code,
        operands: Sequence[ir.Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[ir.Region] = (),
    ) -> ir.Operation:
        """Evaluate an operation, and return it with its results."""
        if self._recorded:
            return super().append(code, operands, result_types, attributes, regions)
        if self.check is not None:
            self.check(code)
        operation = ir.Operation(code, operands, result_types, attributes, regions)
        if code in TERMINATORS:
            return operation
        arrays = [_array_of(v) for v in operands]
        if code not in ELEMENTWISE and any(
            a.ndim and not v.shape for a, v in zip(arrays, operands, strict=True)
        ):
            raise LanesNeeded  # a scalar of a combine function that stands for many: only one is as it says
        if code in MEMORY:
            self._check(operation, arrays)
        if code in (Code.PRINT, Code.ASSERT):
            self._report(operation, arrays)
            return operation
        results = self._results(operation, arrays)
        origin = _origin(operands)
        operation.results = tuple(
            [
                Known(t, np.asarray(r), origin if isinstance(element_of(t), Pointer) else None)
                for t, r in zip(result_types, results, strict=True)
            ]
        )
        if self.spins is not None and self.spins.is_looping:
            seen = spinning.reads_of(operation, results, operands)
            for value in operation.results:
                value.reads = seen  # type: ignore[attr-defined]  # they are known
        if code is Code.CONSTANT:
            # Functions of the language ask for the operation of a number. Others would keep all before them alive.
            operation.results[0].owner = operation
        return operation

    def _report(self, operation: ir.Operation, arrays: list[Array]) -> None:
        """Print values, or check an assertion."""
        attributes = operation.attributes
        if operation.code is Code.PRINT:
            is_hex = bool(attributes.get("hex", False))
            self._print(self.number, attributes["prefix"], operation.operands, arrays, is_hex)
            return
        failure = find_failure(arrays[0], names_of(attributes), arrays[1:])
        if failure is not None:
            raise AssertionError(with_details(attributes["message"], failure))

    def loop(self, bounds: Sequence[object], unrolled: bool) -> Iterable[object]:
        """Return the indices of a loop over ``tl.range`` or, unrolled, ``tl.static_range``.

        Args:
            bounds: Start, end and step.
            unrolled: Whether the indices are Python's integers.
        """
        return range(*map(unwrap, bounds)) if unrolled else Counter(bounds)

    def base_of(self, name: str) -> int | None:
        """Return the address of an argument; None if its memory is not known."""
        return self._memory.base_of(name)

    def _results(
        self,
        operation: ir.Operation,
        arrays: list[Array],
        frame: dict[ir.Value, Array] | None = None,
    ) -> Sequence[Array]:
        code = operation.code
        if code in native.INEXACT:
            return (native.elementwise(operation, arrays),)
        if code in ATOMIC:
            mask = arrays[2] if code is Code.ATOMIC_RMW and len(arrays) > 2 else None
            values = arrays[1:] if code is Code.ATOMIC_CAS else arrays[1:2]
            return (native.atomic(operation, arrays[0], values, mask),)
        with np.errstate(all="ignore"):
            inside = _Frame() if operation.regions and frame is None else frame
            return self._program.evaluate(operation, arrays, inside)

    def _check(self, operation: ir.Operation, arrays: list[Array]) -> None:
        """Check the addresses of a memory operation."""
        code, pointer = operation.code, operation.operands[0]
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        mask = None
        if code is Code.LOAD and len(arrays) > 1:
            mask = arrays[1]
        elif code in (Code.STORE, Code.ATOMIC_RMW) and len(arrays) > 2:
            mask = arrays[2]
        size = numpy_dtype(element.element).itemsize
        origin = pointer.origin if isinstance(pointer, Known) else None
        self._memory.check(_NAMES.get(code, "atomic"), origin, arrays[0], mask, size)

    def _combined(
        self,
        tiles: Sequence[ir.Value],
        combine: Callable[..., Sequence[ir.Value]],
        apply: Callable[[Sequence[Array], compiled_order.Combine], Sequence[Array]],
    ) -> list[Array]:
        """Apply a combine function along an axis: to many elements at once, if it lets us."""
        elements = [element_of(t.type) for t in tiles]
        both = [*elements, *elements]

        def combined(arguments: Sequence[Array]) -> Sequence[Array]:
            values = [Known(e, np.asarray(a)) for e, a in zip(both, arguments, strict=True)]
            return [_array_of(v) for v in combine(*values)]

        arrays = [_array_of(t) for t in tiles]
        try:
            return list(apply(arrays, combined))
        except LanesNeeded:
            return list(apply(arrays, lane_by_lane(combined)))

    def reduce(
        self, tiles: Sequence[ir.Value], axis: int, combine: Callable[..., Sequence[ir.Value]]
    ) -> tuple[ir.Value, ...]:
        """Combine the elements along an axis."""
        if self._recorded:
            return super().reduce(tiles, axis, combine)
        shape = tiles[0].shape[:axis] + tiles[0].shape[axis + 1 :]

        def apply(arrays: Sequence[Array], combined: compiled_order.Combine) -> Sequence[Array]:
            return compiled_order.reduce(arrays, axis, combined)

        results = self._combined(tiles, combine, apply)
        types = [with_shape(shape, element_of(t.type)) for t in tiles]
        made = tuple([Known(t, r) for t, r in zip(types, results, strict=True)])
        if self.spins is not None and self.spins.is_looping:
            operation = ir.Operation(Code.REDUCE, tiles, [v.type for v in made])
            for value, result in zip(made, results, strict=True):
                value.reads = spinning.reads_of(operation, [result], tiles)
        return made

    def scan(
        self,
        tiles: Sequence[ir.Value],
        axis: int,
        combine: Callable[..., Sequence[ir.Value]],
        reverse: bool = False,
    ) -> tuple[ir.Value, ...]:
        """Combine each element with all before it along an axis."""
        if self._recorded:
            return super().scan(tiles, axis, combine, reverse)

        def apply(arrays: Sequence[Array], combined: compiled_order.Combine) -> Sequence[Array]:
            return compiled_order.scan(arrays, axis, reverse, combined)

        results = self._combined(tiles, combine, apply)
        return tuple([Known(t.type, r) for t, r in zip(tiles, results, strict=True)])


def _array_of(value: ir.Value) -> Array:
    array: Any = getattr(value, "array", None)
    if array is None:
        raise RuntimeError(
            "a kernel that runs as Python got a tensor of another launch, or of a compilation"
        )
    found: Array = array
    return found


def _origin(operands: Sequence[ir.Value]) -> str | None:
    """Return the one argument that the pointers among the operands came from; None if there are several."""
    names = {
        getattr(v, "origin", None) for v in operands if isinstance(element_of(v.type), Pointer)
    }
    return names.pop() if len(names) == 1 else None


def _write_nothing(text: str) -> None:
    raise AssertionError(f"the evaluator prints itself, but got {text!r}")
