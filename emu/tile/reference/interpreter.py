"""Interpreter of modules, operation by operation."""

from __future__ import annotations

import itertools
import numbers
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emu.tile import machine_words, observing, printing
from emu.tile.assertions import find_failure, names_of
from emu.tile.ir import (
    Function,
    Location,
    Module,
    Operation,
    Region,
    TileError,
    Value,
    checked_module,
)
from emu.tile.ops import Code
from emu.tile.reference import along, memory, shapes
from emu.tile.reference.elementwise import ELEMENTWISE, Pure, numpy_dtype
from emu.tile.reference.rounding import Array, to_float
from emu.tile.types import U64, DType, Tile, Token, Type, element_of

Triple: TypeAlias = tuple[int, int, int]
Frame: TypeAlias = dict[Value, Array]


class ExecutionError(TileError):
    """Error of a program: a forbidden operation, or a failed assertion.

    Attributes:
        message: What is wrong.
        program: The program's numbers along the three axes of the grid.
        location: Where in the source, if known.
    """

    def __init__(self, message: str, program: Triple, location: Location | None) -> None:
        where = "" if location is None else f"{location}: "
        super().__init__(f"{where}{message} (program {program})")
        self.message = message
        self.program = program
        self.location = location


def run(
    module: Module,
    arguments: Sequence[bool | float],
    grid: Sequence[int] = (1, 1, 1),
    *,
    write: Callable[[str], object] | None = None,
) -> None:
    """Run the kernel of a module for every program of a grid, x fastest.

    Args:
        module: A verified module.
        arguments: One number for each argument of the kernel; for pointers, addresses of memory of
            this process, such as ``array.ctypes.data``.
        grid: Up to three extents.
        write: Gets what PRINT prints, line by line, each with its line feed; by default standard
            output.

    Raises:
        ExecutionError: An assertion does not hold, an index or an address is bad.
        TypeError: The kernel has an argument that is a tile.
        ValueError: The number of arguments is wrong, or an argument is out of its type's range.
    """
    kernel, extents = checked_module(module).kernel, _extents(grid)
    if not isinstance(arguments, Sequence) or len(arguments) != len(kernel.body.arguments):
        got = len(arguments) if isinstance(arguments, Sequence) else repr(arguments)[:80]
        raise ValueError(f"arguments must be {len(kernel.body.arguments)} numbers, but got {got}")
    values = []
    for number, (given, to) in enumerate(zip(arguments, kernel.body.arguments, strict=True)):
        try:
            values.append(argument(given, to.type))
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"arguments[{number}]: {error}") from None
    # Programs run one after the other: one that waits for a later one never ends here.
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(e) for e in reversed(extents))):
            Program(module, (x, y, z), extents, write or sys.stdout.write).call(kernel, values)


def _extents(grid: Sequence[int]) -> Triple:
    """Return the extents of a grid along x, y and z.

    Raises:
        TypeError: It is not a sequence of integers.
        ValueError: It has more than three, or a negative one.
    """
    try:
        found = tuple(operator.index(g) for g in grid)
    except TypeError:
        raise TypeError(f"grid must be up to three integers, but got {grid!r:.80}") from None
    if len(found) > 3 or any(not 0 <= extent < 1 << 31 for extent in found):
        raise ValueError(f"grid must be up to three extents in [0, 2**31), but got {grid!r:.80}")
    return (*found, 1, 1, 1)[:3]  # type: ignore[return-value]  # mypy: of any length


def argument(value: Any, type_: Type) -> Array:
    """Return a number as a scalar array of a scalar type.

    Raises:
        TypeError: The type is not a scalar's.
        ValueError: The number is out of the type's range.
    """
    if isinstance(type_, Tile | Token):
        raise TypeError(f"arguments of kernels must be scalars or pointers, but one is {type_}")
    is_number = isinstance(value, numbers.Real | np.number | np.bool_)
    if not is_number:
        raise TypeError(f"an argument of type {type_} must be a number, but got {value!r:.60}")
    if isinstance(type_, DType) and type_.is_float:
        return to_float(np.asarray(float(value), np.float64), type_)
    number = int(value)  # pyright: ignore[reportArgumentType]  # every Real is taken: a Fraction too
    bounds = (type_ if isinstance(type_, DType) else U64).limits
    if not bounds[0] <= number <= bounds[1]:
        raise ValueError(
            f"an argument of type {type_} must be {bounds[0]} to {bounds[1]}, but got {value}"
        )
    return np.asarray(number, numpy_dtype(type_))


@dataclass(frozen=True)
class Program:
    """One program of a grid: the state of its operations besides their operands."""

    module: Module
    number: Triple
    grid: Triple
    write: Callable[[str], object]

    def call(self, function: Function, arguments: Sequence[Array]) -> list[Array]:
        """Run a function in a scope of its own."""
        return self.region(function.body, arguments, {})

    def region(self, region: Region, arguments: Sequence[Array], frame: Frame) -> list[Array]:
        """Run a region's operations and return the operands of its terminator."""
        # One frame for a function and all regions in it: a value is defined anew in each round of a loop, and the
        # verifier has seen to it that none is read where it is not visible.
        frame.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            operands = [frame[v] for v in operation.operands]
            if operation.code in (Code.YIELD, Code.RETURN):
                return operands
            results = self.operation(operation, operands, frame)
            frame.update(zip(operation.results, results, strict=True))
        raise TileError("a region must end with yield or return")

    def operation(
        self, operation: Operation, operands: list[Array], frame: Frame
    ) -> Sequence[Array]:
        """Run one operation; errors name the program and the location."""
        try:
            return self.evaluate(operation, operands, frame)
        except (ValueError, IndexError) as error:
            raise self.error(operation, str(error)) from error

    def evaluate(
        self, operation: Operation, operands: list[Array], frame: Frame | None = None
    ) -> Sequence[Array]:
        """Return the results of one operation; regions see the values of ``frame``."""
        function = ONE_RESULT.get(operation.code)
        if function is not None:
            return (function(operation, *operands),)
        return OTHER[operation.code](self, operation, operands, {} if frame is None else frame)

    def error(self, operation: Operation, message: str) -> ExecutionError:
        """Return an error at an operation."""
        return ExecutionError(message, self.number, operation.location)


ONE_RESULT: dict[Code, Pure] = {
    **ELEMENTWISE,
    **shapes.SHAPES,
    Code.LOAD: memory.load,
    Code.ATOMIC_RMW: memory.atomic_rmw,
    Code.ATOMIC_CAS: memory.atomic_cas,
}
"""Operations that need nothing but the values of their operands, and have one result."""

Results: TypeAlias = Sequence[Array]


def _program_id(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return (np.asarray(p.number[o.attributes["axis"]], np.int32),)


def _num_programs(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return (np.asarray(p.grid[o.attributes["axis"]], np.int32),)


def _split(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return shapes.split(*operands)


def _store(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    memory.store(o, *operands)
    return ()


def _for(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    """Run a FOR; the index counts without wrapping, even near the limit of its dtype."""
    start, end, step = (int(x) for x in operands[:3])  # Python's, which do not wrap
    if step == 0:
        raise ValueError("the step of a loop must not be 0")
    carried = operands[3:]
    dtype = operands[0].dtype
    for index in range(start, end, step):
        carried = p.region(o.regions[0], [np.asarray(index, dtype), *carried], frame)
    return carried


def _while(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    while True:
        condition, *passed = p.region(o.regions[0], operands, frame)
        if not condition:
            return passed
        operands = p.region(o.regions[1], passed, frame)


def _if(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return p.region(o.regions[0 if operands[0] else 1], (), frame)


def _call(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return p.call(p.module.functions[o.attributes["callee"]], operands)


def _reduce(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return along.reduce(o, operands, lambda pair: p.region(o.regions[0], pair, frame))


def _scan(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return along.scan(o, operands, lambda pair: p.region(o.regions[0], pair, frame))


def _barrier(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return ()


def _assert(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    failure = find_failure(operands[0], names_of(o.attributes), operands[1:])
    if failure is not None:
        parts = ("assertion failed", o.attributes["message"], str(failure))
        raise p.error(o, ": ".join(filter(None, parts)))
    return ()


def _observe(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    values = [np.ascontiguousarray(v) for v in operands]
    observing.tell(o.attributes["site"], p.number, values, bool(o.attributes.get("native")))
    return ()


def _machine_word(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    return (np.asarray(machine_words.read(o.attributes["what"]), np.int64),)


def _machine_call(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    result = machine_words.call(o.attributes["what"], [int(v) for v in operands])
    return (np.asarray(result, np.int64),)


def _print(p: Program, o: Operation, operands: list[Array], frame: Frame) -> Results:
    prefix, as_hex = o.attributes["prefix"], o.attributes.get("hex", False)
    elements = [element_of(value.type) for value in o.operands]
    names = [e.name if isinstance(e, DType) else printing.POINTER for e in elements]
    pairs = list(zip(operands, names, strict=True))
    for line in printing.lines(p.number, prefix, as_hex, pairs):
        p.write(f"{line}\n")
    return ()


OTHER: dict[Code, Callable[[Program, Operation, list[Array], Frame], Results]] = {
    Code.PROGRAM_ID: _program_id,
    Code.NUM_PROGRAMS: _num_programs,
    Code.SPLIT: _split,
    Code.STORE: _store,
    Code.FOR: _for,
    Code.WHILE: _while,
    Code.IF: _if,
    Code.CALL: _call,
    Code.REDUCE: _reduce,
    Code.SCAN: _scan,
    Code.BARRIER: _barrier,
    Code.ASSERT: _assert,
    Code.PRINT: _print,
    Code.OBSERVE: _observe,
    Code.MACHINE_WORD: _machine_word,
    Code.MACHINE_CALL: _machine_call,
}
"""Operations that need more than the values of their operands: the program, memory, regions."""
