"""The LLVM function of a kernel under construction: registers, scratch, builder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from emu.tile.cpu.emit.located import LocatedFunction
from emu.tile.cpu.emit.memory import Memory, Scratch, dense_strides
from emu.tile.cpu.numeric import elementwise
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.options import Options
from emu.tile.cpu.plan.analysis import Analysis, Bound, is_view, kept_axes
from emu.tile.ir import Operation, Region, Value
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.ops import Code
from emu.tile.types import ScalarType, Tile, element_of


class Frame:
    """State that the emitters of one kernel share.

    Attributes:
        builder: Where code that stands in no loop of its own goes.
        analysis: Of the kernel's body.
        options: As given.
        scratch: Layout of the function's own memory.
        scratch_base: Its address, behind that of the functions that were emitted before.
        scratch_root: Address of the memory of all functions.
        memories: Where values lie that have memory.
        beyond: Of values with memory: the bounds beyond which all lanes are the same.
        body: The function's body.
        grid: Of a kernel: registers (i32) of the grid's extents.
        streams: Whether any store goes past the caches.
        next_rows: Of loads in a loop: the bytes (i64) from what they read to what they read in the next round.
    """

    def __init__(self, function: LocatedFunction, body: Region, options: Options) -> None:
        self.function = function
        self.entry = ir.IRBuilder(function.append_basic_block("entry"))
        self.builder = self.entry
        self.analysis = Analysis(body)
        self.options = options
        self.scratch = Scratch()
        self.scratch_base: IrPointer | None = None
        self.scratch_root: IrPointer | None = None
        self.memories: dict[Value, Memory] = {}
        self.beyond: dict[Value, set[Bound]] = {}
        self.body = body
        self.grid: Sequence[Register] = ()
        self.streams = False
        self.next_rows: dict[Operation, Register] = {}
        self._places: dict[Value, tuple[int, int]] = {}
        self._copies: dict[Value, list[tuple[int, int]]] = {}
        self._scalars: dict[Value, Register] = {}

    # ---- registers

    def scalar(self, value: Value) -> Register:
        """Return the register of a scalar."""
        return self._scalars[value]

    def set_scalar(self, value: Value, register: Register) -> None:
        """Bind a scalar to a register."""
        self._scalars[value] = register

    @contextmanager
    def other_scalars(self) -> Iterator[None]:
        """Let scalars have other registers in the ``with`` block."""
        before = dict(self._scalars)
        yield
        self._scalars = before

    def variable(self, type_: IrType) -> IrPointer:
        """Return the address of a new local variable, which LLVM turns into registers."""
        return self.entry.alloca(type_)

    def apply(
        self, builder: ir.IRBuilder, operation: Operation, operands: Sequence[Register]
    ) -> Register:
        """Emit an element-wise operation on registers."""
        return elementwise.emit(
            builder,
            operation.code,
            operation.attributes,
            [element_of(operand.type) for operand in operation.operands],
            element_of(operation.result.type),
            operands,
            contract=self.options.contract,
        )

    def convert(
        self, builder: ir.IRBuilder, source: ScalarType, target: ScalarType, register: Register
    ) -> Register:
        """Convert registers from one dtype to another."""
        if source == target:
            return register
        attributes = {"rounding": "rtne"}
        return elementwise.emit(builder, Code.CAST, attributes, [source], target, [register])

    # ---- blocks

    @contextmanager
    def at(self, operation: Operation) -> Iterator[None]:
        """Let the instructions of the ``with`` block come from an operation."""
        before = self.function.locate(operation.location)
        yield
        self.function.location = before

    def block(self, name: str = "") -> ir.Block:
        """Return a new basic block."""
        return self.function.append_basic_block(name)

    @contextmanager
    def when(self, condition: Register) -> Iterator[None]:
        """Run the code that is emitted in the ``with`` block only if the condition (i1) is true."""
        then, after = self.block("then"), self.block("after")
        self.builder.cbranch(condition, then, after)
        self.builder = ir.IRBuilder(then)
        yield
        self.builder.branch(after)
        self.builder = ir.IRBuilder(after)

    def start_block(self, block: ir.Block) -> None:
        """Continue in another block."""
        self.builder = ir.IRBuilder(block)

    # ---- memory

    def new_memory(
        self, shape: tuple[int, ...], element: ScalarType, value: Value | None = None
    ) -> Memory:
        """Return scratch for a tile; :meth:`release` frees that of a value."""
        place, stored = self._take(shape, element)
        if value is not None:
            self._places[value] = place
        return stored

    def _take(self, shape: tuple[int, ...], element: ScalarType) -> tuple[tuple[int, int], Memory]:
        place = self.scratch.take(math.prod(shape) * element.bytes)
        offset = r.number(r.I64, place[0])
        base = self.entry.gep(self.scratch_base, [offset], source_etype=r.BYTE)
        return place, Memory(base, element, dense_strides(shape))

    def remember(self, value: Value, element: ScalarType | None = None) -> Memory:
        """Return the memory of a value; allocate it if it has none."""
        if value not in self.memories:
            wanted = element or element_of(value.type)
            self.memories[value] = self.new_memory(value.shape, wanted, value)
        return self.memories[value]

    def new_copy(
        self, value: Value, element: ScalarType, shape: tuple[int, ...] | None = None
    ) -> Memory:
        """Return scratch for a copy of a value in another dtype, layout or shape; see :meth:`release_copy`."""
        place, stored = self._take(value.shape if shape is None else shape, element)
        self._copies.setdefault(value, []).append(place)
        return stored

    def release_copy(self, value: Value) -> None:
        """Free the scratch of a value's copies."""
        for place in self._copies.pop(value, []):
            self.scratch.give_back(*place)

    def forget(self, value: Value) -> None:
        """Free the memory of a value that can be computed again."""
        if self.memories.pop(value, None) is not None:
            self.release(value)

    def release(self, value: Value) -> None:
        """Free the memory of a value."""
        place = self._places.pop(value, None)
        if place is not None:
            self.scratch.give_back(*place)

    def owns_memory(self, value: Value) -> bool:
        """Return whether a value has scratch that is freed with it."""
        return value in self._places

    def hand_over(self, value: Value, other: Value) -> None:
        """Hand the memory of one value over to another, with which it dies."""
        place = self._places.pop(value, None)
        if place is not None:
            self._places[other] = place

    def memory_of(self, value: Value) -> Memory:
        """Return the memory of a value or of a view, with the view's strides."""
        operation = value.owner
        if value in self.memories or operation is None or not is_view(operation):
            return self.memories[value]
        source, shape = self.memory_of(operation.operands[0]), operation.operands[0].shape
        strides, base, code = source.strides, source.base, operation.code
        if code is Code.BROADCAST:
            strides = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
        elif code is Code.PERMUTE:
            strides = tuple(strides[axis] for axis in operation.attributes["order"])
        elif code is Code.RESHAPE:
            kept = iter([strides[axis] for axis in kept_axes(shape)])
            strides = tuple(0 if n == 1 else next(kept) for n in value.shape)
        elif code is Code.SPLIT:
            offset = operation.results.index(value) * strides[-1]
            base, strides = self._moved(source, offset), strides[:-1]
        elif code is Code.FLIP:
            axis = operation.attributes["axis"]
            base = self._moved(source, (shape[axis] - 1) * strides[axis])
            strides = (*strides[:axis], -strides[axis], *strides[axis + 1 :])
        return Memory(base, source.element, strides)

    def _moved(self, stored: Memory, elements: int) -> IrPointer:
        offset = r.number(r.I64, elements * stored.element.bytes)
        return self.builder.gep(stored.base, [offset], source_etype=r.BYTE)


def is_tile(value: Value) -> bool:
    """Return whether a value is a tile."""
    return isinstance(value.type, Tile)
