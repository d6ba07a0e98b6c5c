"""Programs of the tile IR with their arguments, run by the reference and by what is tested against it.

A runner is a callable ``run(module, arguments, grid)`` as ``emu.tile.reference.run``: it gets a number
for each argument of the kernel, addresses for pointers. ``Program.check(runner)`` is all that a test of
a compiler needs::

    @pytest.mark.parametrize("program", CASES, ids=str)
    def test_compiled_programs_do_what_the_reference_does(program):
        program.check(lambda module, arguments, grid: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from emu.tile import reference
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.text import print_module
from emu.tile.types import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    FROM_NUMPY,
    I1,
    I32,
    DType,
    Pointer,
    Tile,
    Type,
    with_shape,
)

Array = np.ndarray[Any, Any]
Runner = Callable[[Module, Sequence[bool | int | float], tuple[int, int, int]], object]

GUARD = 256
"""Bytes before and behind each buffer that no program may change; a multiple of every alignment."""

TOLERANCE = {F8E4M3FN: 0.26, F8E5M2: 0.51, F16: 2e-3, BF16: 1.6e-2, F32: 2e-6, F64: 1e-13}
"""How far functions that are not rounded correctly may be off, relative; of the narrow ones two ulps."""


@dataclass(frozen=True, repr=False)
class Program:
    """A module, arguments to run it with, and how exact its results must be.

    Attributes:
        name: For the test's id.
        module: What runs.
        arguments: Arrays for pointers (the same array may be given twice), numbers for scalars.
        grid: Extents of the grid.
        inexact: Numbers of arguments whose floats may be off by the dtype's ``TOLERANCE``.
        ignored: Numbers of arguments whose contents afterwards are not laid down.
    """

    name: str
    module: Module
    arguments: tuple[Any, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    inexact: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        """For hypothesis, which shows the smallest program that fails."""
        arrays = [
            f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else a for a in self.arguments
        ]
        return f"{self.name} {arrays} on {self.grid}\n{print_module(self.module)}"

    def run(self, runner: Runner) -> list[Array | None]:
        """Run on copies of the arrays and return these, ``None`` for scalars.

        Raises:
            AssertionError: Something beside a buffer was written.
        """
        copies: dict[int, Array] = {}
        for given in self.arguments:
            if isinstance(given, np.ndarray) and id(given) not in copies:
                copies[id(given)] = guarded(given)
        inner = {k: v[GUARD : v.size - GUARD] for k, v in copies.items()}
        numbers = [
            inner[id(a)].ctypes.data if isinstance(a, np.ndarray) else a for a in self.arguments
        ]
        runner(self.module, numbers, self.grid)
        for number, given in enumerate(self.arguments):
            if isinstance(given, np.ndarray):
                whole = copies[id(given)]
                edges = np.concatenate((whole[:GUARD], whole[whole.size - GUARD :]))
                assert (edges == 0xA5).all(), f"{self}: bytes beside argument {number} were written"
        return [
            inner[id(a)].view(a.dtype).reshape(a.shape) if isinstance(a, np.ndarray) else None
            for a in self.arguments
        ]

    def run_reference(self) -> list[Array | None]:
        """Run by the reference."""
        return self.run(reference.run)

    def compare(self, expected: Sequence[Array | None], got: Sequence[Array | None]) -> None:
        """Raise AssertionError, which names argument, element and values, where results differ."""
        for number, (e, g) in enumerate(zip(expected, got, strict=True)):
            if e is None or g is None or number in self.ignored:
                continue
            bad = ~equal(e, g, inexact=number in self.inexact)
            if bad.any():
                where = tuple(int(i) for i in np.argwhere(bad)[0])
                raise AssertionError(
                    f"{self}: argument {number} ({e.dtype}{list(e.shape)}) differs at "
                    f"{int(bad.sum())} of {bad.size} elements, first at {where}: "
                    f"expected {e[where]!r}, got {g[where]!r}"
                )

    def check(self, runner: Runner) -> None:
        """Run by the reference and by the runner, and compare."""
        self.compare(self.run_reference(), self.run(runner))


def guarded(array: Array) -> Array:
    """Return the array's bytes in the midst of a larger array, aligned to 64 bytes."""
    size = array.nbytes + 2 * GUARD
    room = np.full(size + 64, 0xA5, np.uint8)
    start = -room.ctypes.data % 64
    whole = room[start : start + size]
    whole[GUARD : size - GUARD] = np.frombuffer(array.tobytes(), np.uint8)
    return whole


def equal(expected: Array, got: Array, *, inexact: bool = False) -> Array:
    """Compare element by element: NaN equals NaN, and -0 equals 0."""
    dtype = FROM_NUMPY[expected.dtype]
    if not dtype.is_float:
        return np.asarray(expected == got)
    with np.errstate(all="ignore"):
        e, g = expected.astype(np.float64), got.astype(np.float64)
        same = (e == g) | (np.isnan(e) & np.isnan(g))
        if inexact:
            smallest = float(ml_dtypes.finfo(expected.dtype).smallest_normal)
            same |= np.abs(e - g) <= TOLERANCE[dtype] * np.abs(e) + 4 * smallest
    return same


def values(dtype: DType, count: int, seed: int = 0, *, special: bool = True) -> Array:
    """Return elements of all magnitudes, the extremes among them.

    Args:
        dtype: Of the elements.
        count: How many.
        seed: Of the random numbers.
        special: Whether infinities and NaN may be there.
    """
    rng = np.random.default_rng([seed, count, *dtype.name.encode()])
    if dtype == I1:
        return rng.integers(0, 2, count).astype(np.bool_)
    if not dtype.is_float:
        info = np.iinfo(dtype.numpy)
        edges = [0, 1, info.max, info.min, info.max - 1, info.min + 1, 2, 3, 7, info.max // 2]
        wide = rng.integers(info.min, info.max, count, dtype.numpy, endpoint=True)
        small = rng.integers(-9 if dtype.is_signed else 0, 10, count).astype(dtype.numpy)
        found = np.where(rng.random(count) < 0.5, wide, small)
    else:
        info = ml_dtypes.finfo(dtype.numpy)
        tiny, top = float(info.smallest_subnormal), float(info.max)
        edges = [0.0, -0.0, 1.0, -1.0, tiny, -tiny, top, -top, 0.5, 1.5, 2.5, -2.5]
        edges += [np.inf, -np.inf, np.nan] if special else []
        scale = np.exp2(rng.integers(-6, 7, count).astype(np.float64))
        found = (rng.standard_normal(count) * scale).astype(dtype.numpy)
    which = rng.integers(0, len(edges), count)
    with np.errstate(all="ignore"):
        chosen = np.array(edges).astype(dtype.numpy)[which] if dtype.is_float else None
    if chosen is None:
        chosen = np.array(edges, object)[which].astype(dtype.numpy)
    return np.where(rng.random(count) < 0.3, chosen, found).astype(dtype.numpy)


@dataclass
class Kernel:
    """A kernel under construction together with its arguments.

    Attributes:
        module: The module, with the kernel as its first function.
        builder: Appends to the kernel.
        given: The arguments so far.
    """

    module: Module = field(default_factory=Module)
    builder: Builder = field(default_factory=Builder)
    given: list[Any] = field(default_factory=list)
    inexact: set[int] = field(default_factory=set)
    ignored: set[int] = field(default_factory=set)
    name: str = "kernel"

    def __post_init__(self) -> None:
        self.module.functions[self.name] = Function(self.name, self.builder.region)

    def argument(self, type_: Type, value: Any, name: str = "") -> Value:
        """Add an argument with the array or number that is passed for it."""
        argument = Value(type_, name=name)
        self.module.kernel.body.arguments.append(argument)
        self.given.append(value)
        return argument

    def pointer(self, array: Array, name: str = "") -> Value:
        """Add a pointer to an array."""
        return self.argument(Pointer(FROM_NUMPY[array.dtype]), array, name)

    def output(self, type_: Type, name: str = "", *, inexact: bool = False) -> Value:
        """Add a pointer to a buffer for one value of the type, filled with ones."""
        element = type_.element if isinstance(type_, Tile) else type_
        assert isinstance(element, DType)
        shape = type_.shape if isinstance(type_, Tile) else (1,)
        if inexact:
            self.inexact.add(len(self.given))
        return self.pointer(np.ones(shape, element.numpy), name)

    def addresses(self, pointer: Value, shape: tuple[int, ...]) -> Value:
        """Pointers to the elements of a row-major tile."""
        b = self.builder
        if not shape:
            return pointer
        offsets = b.reshape(b.arange(0, int(np.prod(shape))), shape)
        return b.ptr_add(b.splat(pointer, shape), offsets)

    def load(self, array: Array, shape: tuple[int, ...] | None = None) -> Value:
        """Add an argument and load all of it, as a tile of its shape."""
        return self.read(self.pointer(array), array.shape if shape is None else shape)

    def read(self, pointer: Value, shape: tuple[int, ...]) -> Value:
        """Load a row-major tile."""
        return self.builder.load(self.addresses(pointer, shape))

    def write(self, pointer: Value, value: Value) -> None:
        """Store a row-major tile, or a scalar."""
        self.builder.store(self.addresses(pointer, value.shape), value)

    def result(self, value: Value, *, inexact: bool = False, ignored: bool = False) -> None:
        """Add an output and store the value to it."""
        if ignored:
            self.ignored.add(len(self.given))
        self.write(self.output(value.type, inexact=inexact), value)

    def number(self, value: float, dtype: DType = I32, shape: tuple[int, ...] = ()) -> Value:
        """A constant."""
        return self.builder.constant(value, with_shape(shape, dtype))

    def region(self, build: Callable[..., Sequence[Value]], *types: Type) -> Region:
        """Build a region that ends with a yield of what the function returns."""
        region = Region([Value(t) for t in types])
        with self.builder.into(region):
            self.builder.yield_(*build(*region.arguments))
        return region

    def function(self, name: str, build: Callable[..., Sequence[Value]], *types: Type) -> Function:
        """Build another function of the module."""
        region = Region([Value(t) for t in types])
        with self.builder.into(region):
            results = build(*region.arguments)
            self.builder.return_(*results)
        self.module.functions[name] = Function(name, region, tuple(v.type for v in results))
        return self.module.functions[name]

    def program(self, name: str, grid: tuple[int, int, int] = (1, 1, 1)) -> Program:
        """End the kernel."""
        self.builder.return_()
        inexact, ignored = frozenset(self.inexact), frozenset(self.ignored)
        return Program(name, self.module, tuple(self.given), grid, inexact, ignored)
