"""Scratch memory of a program, and loads and stores of any memory: vectors if elements are contiguous.

A value that is needed beyond its loop lies in *scratch*: a stretch of bytes that each thread has for the
programs that it runs, whose layout is decided when the kernel is compiled. Accesses to scratch and to what
the program's pointers name go through the same few functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import IrPointer, Register
from emu.tile.types import ScalarType

Stride: TypeAlias = int | Register
"""Known to the compiler, or a scalar register (i64)."""

LINE = 64
"""Bytes of a cache line: what a prefetch brings."""

_POINTER = ir.PointerType()


@dataclass(frozen=True, slots=True)
class Memory:
    """A tile in memory: scratch, or where a load in place finds it.

    Attributes:
        base: Address of the element at the origin, an LLVM pointer.
        element: What lies there; its register type may be wider than that of the value.
        strides: In elements, one an axis; a broadcast axis has 0. Registers (i64) where a product reads
            a tile in the program's own memory, whose strides are known at run time.
    """

    base: IrPointer
    element: ScalarType
    strides: tuple[Stride, ...]

    def step(self, builder: ir.IRBuilder, axis: int) -> Stride:
        """Return the bytes between neighbours along an axis."""
        stride = self.strides[axis]
        if isinstance(stride, int):
            return stride * self.element.bytes
        return builder.mul(stride, r.number(r.I64, self.element.bytes))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tile in row-major order."""
    strides, total = [], 1
    for extent in reversed(shape):
        strides.append(total)
        total *= extent
    return tuple(reversed(strides))


class Scratch:
    """Allocator of scratch: values that are not alive at once may share memory.

    Attributes:
        size: Bytes that have been in use at the most.
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # offset, bytes; by offset

    def take(self, count: int) -> tuple[int, int]:
        """Allocate ``count`` bytes; return the offset and the bytes reserved."""
        count = -(-count // LINE) * LINE
        fitting = [place for place in self._free if place[1] >= count]
        if fitting:
            place = min(fitting, key=lambda p: p[1])
            self._free.remove(place)
            if place[1] > count:
                self._free.append((place[0] + count, place[1] - count))
            return place[0], count
        offset = self.size
        self.size += count
        return offset, count

    def give_back(self, offset: int, count: int) -> None:
        """Free an allocation."""
        # It may be taken again at once: code is emitted in the order in which it runs, so that nothing that is emitted
        # later may read what is freed here. A loop's carried tiles are therefore held until the loop ends.
        self._free.append((offset, count))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for at, size in self._free:
            if merged and merged[-1][0] + merged[-1][1] == at:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((at, size))
        self._free = merged


def _all_true(mask: Register | None, lanes: int) -> Register:
    return mask if mask is not None else r.number(r.vector(r.BIT, lanes), 1)


def load_row(
    builder: ir.IRBuilder,
    element: ScalarType,
    address: Register,
    lanes: int,
    mask: Register | None,
    other: Register | None,
) -> Register:
    """Load elements that lie side by side.

    Args:
        builder: Where the code goes.
        element: What lies there.
        address: i64.
        lanes: How many.
        mask: Vector of i1; lanes where it is false are not touched. ``None``: all are.
        other: Register whose lanes are given where the mask is false; ``None``: zeros.
    """
    type_ = r.memory_type(element, lanes)
    pointer = builder.inttoptr(address, _POINTER)
    if mask is None:
        value = builder.load(pointer, typ=type_)
        value.align = element.bytes
        return r.from_memory(builder, element, value)
    name = f"llvm.masked.load.{r.mangle(type_)}.p0"
    rest = ir.Constant(type_, None) if other is None else r.to_memory(builder, element, other)
    kinds = (_POINTER, r.I32, r.vector(r.BIT, lanes), type_)
    function = r.declare(builder, name, type_, kinds)
    value = builder.call(function, [pointer, r.number(r.I32, element.bytes), mask, rest])
    return r.from_memory(builder, element, value)


def load_lanes(
    builder: ir.IRBuilder,
    element: ScalarType,
    addresses: Register,
    lanes: int,
    mask: Register | None,
    other: Register | None,
) -> Register:
    """Load one element from each of a vector of addresses (i64); otherwise as :func:`load_row`."""
    type_ = r.memory_type(element, lanes)
    pointers = builder.inttoptr(addresses, ir.VectorType(_POINTER, lanes))
    name = f"llvm.masked.gather.{r.mangle(type_)}.v{lanes}p0"
    rest = ir.Constant(type_, None) if other is None else r.to_memory(builder, element, other)
    kinds = (pointers.type, r.I32, r.vector(r.BIT, lanes), type_)
    function = r.declare(builder, name, type_, kinds)
    arguments = [pointers, r.number(r.I32, element.bytes), _all_true(mask, lanes), rest]
    return r.from_memory(builder, element, builder.call(function, arguments))


def load_one(
    builder: ir.IRBuilder,
    element: ScalarType,
    address: Register,
    mask: Register | None,
    other: Register | None,
) -> Register:
    """Load one element, unless the mask (i1) is false."""
    if mask is not None:
        one = r.number(r.I32, 0)
        masks, others = r.splat(builder, mask, 1), None
        if other is not None:
            others = r.splat(builder, other, 1)
        row = load_row(builder, element, address, 1, masks, others)
        return builder.extract_element(row, one)
    value = builder.load(builder.inttoptr(address, _POINTER), typ=r.memory_type(element))
    value.align = element.bytes
    return r.from_memory(builder, element, value)


def store_row(
    builder: ir.IRBuilder,
    element: ScalarType,
    address: Register,
    value: Register,
    mask: Register | None,
) -> None:
    """Store the lanes of a register side by side, those whose mask is true."""
    stored = r.to_memory(builder, element, value)
    pointer = builder.inttoptr(address, _POINTER)
    if mask is None:
        builder.store(stored, pointer).align = element.bytes
        return
    name = f"llvm.masked.store.{r.mangle(stored.type)}.p0"
    kinds = (stored.type, _POINTER, r.I32, mask.type)
    function = r.declare(builder, name, ir.VoidType(), kinds)
    builder.call(function, [stored, pointer, r.number(r.I32, element.bytes), mask])


def stream_row(
    builder: ir.IRBuilder, element: ScalarType, address: Register, value: Register
) -> None:
    """Store a full run side by side and past the caches; the address is a multiple of its bytes, or of a line's."""
    stored = r.to_memory(builder, element, value)
    instruction = builder.store(stored, builder.inttoptr(address, _POINTER))
    instruction.align = min(LINE, int(stored.type.count) * element.bytes)
    one = builder.module.add_metadata([r.number(r.I32, 1)])
    instruction.set_metadata("nontemporal", one)


def store_lanes(
    builder: ir.IRBuilder,
    element: ScalarType,
    addresses: Register,
    value: Register,
    mask: Register | None,
) -> None:
    """Store each lane at an address of its own; of equal addresses the last lane stays."""
    stored = r.to_memory(builder, element, value)
    lanes = int(stored.type.count)
    pointers = builder.inttoptr(addresses, ir.VectorType(_POINTER, lanes))
    name = f"llvm.masked.scatter.{r.mangle(stored.type)}.v{lanes}p0"
    kinds = (stored.type, pointers.type, r.I32, r.vector(r.BIT, lanes))
    function = r.declare(builder, name, ir.VoidType(), kinds)
    align = r.number(r.I32, element.bytes)
    builder.call(function, [stored, pointers, align, _all_true(mask, lanes)])


def store_one(
    builder: ir.IRBuilder,
    element: ScalarType,
    address: Register,
    value: Register,
    mask: Register | None,
) -> None:
    """Store one element, unless the mask (i1) is false."""
    if mask is not None:
        rows = r.splat(builder, value, 1)
        store_row(builder, element, address, rows, r.splat(builder, mask, 1))
        return
    pointer = builder.inttoptr(address, _POINTER)
    builder.store(r.to_memory(builder, element, value), pointer).align = element.bytes


def prefetch(
    builder: ir.IRBuilder, address: Register, to_write: bool = False, level: int = 1
) -> None:
    """Bring the cache line of an address (i64) to a level of the caches, if there is memory: it never faults."""
    kinds = (_POINTER, r.I32, r.I32, r.I32)
    function = r.declare(builder, "llvm.prefetch.p0", ir.VoidType(), kinds)
    how = [r.number(r.I32, n) for n in (int(to_write), 4 - level, 1)]  # data
    builder.call(function, [builder.inttoptr(address, _POINTER), *how])
