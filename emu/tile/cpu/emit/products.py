"""DOT: products of tiles in scratch, by a register-tiled loop.

As many rows and columns of the result as fit the CPU's registers are held there while k runs: each step
loads a row of B, broadcasts an element of each row of A, and does one fused multiply-add a register. Every
element of the result is one chain ``sum = fma(a[k], b[k], sum)`` with k increasing that begins with c: its
bits depend on no block size and on no CPU that has fused multiply-add. It is the scheme of
``emu.kernels.gemm``, for extents that are known when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.addressing import as_register, counted, move, opaque, scaled
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Memory, Stride, dense_strides
from emu.tile.cpu.emit.transposing import can_transpose, transpose
from emu.tile.cpu.native import has_feature
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import constant_of
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.types import F32, F64, I32, I64, DType, ScalarType, element_of

_POINTER = ir.PointerType()
FAR = 512
"""Bytes between two rows from which on they are copied side by side: each takes lines of its own, in few sets."""


def register_tile(element: ScalarType) -> tuple[int, int, int]:
    """Return the rows, the vectors per row and the lanes per vector of a register tile."""
    if has_feature("avx512f"):
        return 8, 2, 64 // element.bytes
    if has_feature("avx2"):
        return (
            6,
            2,
            32 // element.bytes,
        )  # 12 sums, 2 vectors of B, 1 element of A, and a product of integers
    return 8 if has_feature("neon") else 4, 2, 16 // element.bytes


def row_blocks(m: int, rows: int) -> list[tuple[int, int]]:
    """Return how ``m`` rows are cut into register tiles: counts of tiles and their rows, from the top on.

    A tile of few rows waits for its sums most of the time. What would be left for one shares the rows of the
    last full tile.
    """
    full, rest = divmod(m, rows)
    if not rest or not full or 2 * rest >= rows:
        return [(count, each) for count, each in ((full, rows), (1, rest)) if count and each]
    half = (rows + rest) // 2
    more = rows + rest - half
    shared = [(2, half)] if more == half else [(1, more), (1, half)]
    return [(full - 1, rows), *shared] if full > 1 else shared


def _compute_element(operation: Operation) -> DType:
    """Return the dtype in which a DOT multiplies and adds."""
    element = element_of(operation.result.type)
    assert isinstance(element, DType)
    if element.is_float:
        return F64 if element == F64 else F32
    return I64 if element.bits == 64 else I32


def emit_dot(frame: Frame, operation: Operation) -> None:
    """Emit a DOT: into the memory that its result has, or into new memory."""
    a, b, _ = operation.operands
    element = _compute_element(operation)
    with sums_of(frame, operation, element) as sums:
        left, right = (operand(frame, x, element, x is b, True) for x in (a, b))
        matrices = left, right, sums.begin, sums.end

        def one(origins: list[IrPointer]) -> None:
            extents = a.shape[-2], a.shape[-1], b.shape[-1]
            Product(frame, element, origins, matrices, extents, sums.constant).emit()

        for_each_matrix(frame, a.shape[:-2], matrices, one)


class Sums(NamedTuple):
    """Where a product's sums begin and end.

    Attributes:
        constant: What all of them begin with; None: ``begin`` says it.
        begin: Memory of what they begin with, of the shape and dtype of the sums.
        end: Memory where they are left.
    """

    constant: float | None
    begin: Memory
    end: Memory


@contextmanager
def sums_of(frame: Frame, operation: Operation, element: DType) -> Iterator[Sums]:
    """Give the memories of a DOT's sums; in the end the result lies where it belongs."""
    c, result = operation.operands[2], operation.result
    stored = frame.remember(result)
    # The sums lie in the result's own memory if that has their dtype: the result of a DOT that a loop carries may
    # lie where c lies (``plan.reuse``), and then nothing is copied.
    exact = stored.element == element and stored.strides == dense_strides(result.shape)
    totals = stored if exact else frame.new_copy(c, element)
    constant, begin = constant_of(c), totals
    if constant is None:
        begin = frame.memory_of(c)
        if begin.element != element or begin.strides[-1] != 1:
            groups.copy_tile(frame, c, totals)
            begin = totals
    yield Sums(constant, begin, totals)
    if not exact:
        frame.memories[result] = totals
        groups.copy_tile(frame, result, stored)
        frame.memories[result] = stored
    for given in operation.operands:
        frame.release_copy(given)


def for_each_matrix(
    frame: Frame,
    batch: Sequence[int],
    matrices: Sequence[Memory],
    emit: Callable[[list[IrPointer]], None],
) -> None:
    """Emit loops over the leading axes of some tiles; ``emit`` gets the address of each one's matrix."""

    def one(origins: list[IrPointer], depth: int) -> None:
        if depth == len(batch):
            emit(origins)
            return

        def body(index: Register) -> None:
            moved = [
                move(frame, o, index, matrix.step(frame.builder, depth))
                for o, matrix in zip(origins, matrices, strict=True)
            ]
            one(moved, depth + 1)

        counted(frame, batch[depth], body)

    one([matrix.base for matrix in matrices], 0)


def operand(frame: Frame, value: Value, element: DType, rows: bool, near: bool = False) -> Memory:
    """Return an operand's memory in the dtype of the computation, perhaps with its rows contiguous and near each other."""
    stored = frame.memory_of(value)
    if stored.element != element or (rows and stored.strides[-1] != 1):
        copy = frame.new_copy(value, element)
        if (
            stored.element == element
            and stored.strides[-2] == 1
            and can_transpose(element, value.shape)
        ):
            transpose(frame, stored, copy, (value.shape[0], value.shape[1]))
        else:
            groups.copy_tile(frame, value, copy)
        return copy
    stride = stored.strides[-2]
    if not near or isinstance(stride, int) or stored.strides[-1] != 1:
        return stored
    return _near(frame, value, stored)


def _near(frame: Frame, value: Value, stored: Memory) -> Memory:
    """Return the memory of an operand in place; a copy where its rows are so far apart that they share few cache sets."""
    stride, copy = stored.strides[-2], frame.new_copy(value, stored.element)
    limit = r.number(r.I64, FAR // stored.element.bytes)
    far = frame.builder.icmp_unsigned(">", stride, limit)
    before = frame.builder.block
    with frame.when(far):
        groups.copy_tile(frame, value, copy)
        end = frame.builder.block
    base, row = frame.builder.phi(_POINTER), frame.builder.phi(r.I64)
    base.add_incoming(stored.base, before)
    base.add_incoming(copy.base, end)
    row.add_incoming(stride, before)
    row.add_incoming(r.number(r.I64, copy.strides[-2]), end)
    return Memory(base, stored.element, (*stored.strides[:-2], row, 1))


class Product:
    """One product of matrices.

    Args:
        frame: Where the code goes.
        element: Dtype in which is multiplied and added.
        origins: Addresses of a, b, c and the result.
        matrices: How these lie.
        extents: m, k and n; k may be known at run time.
        constant: What all elements of c are; None: they are in memory.
        panel: Bytes between B's columns of one register tile and those of the next. Default: they lie side by side.
    """

    def __init__(
        self,
        frame: Frame,
        element: DType,
        origins: list[IrPointer],
        matrices: tuple[Memory, Memory, Memory, Memory],
        extents: tuple[int, Stride, int],
        constant: float | None = None,
        panel: Stride | None = None,
    ) -> None:
        self._frame = frame
        self._element = element
        self._origins = origins
        self._a, self._b, self._c, self._out = matrices
        self._m, self._k, self._n = extents
        self._constant = constant
        self._panel_step = panel
        self._rows, self._vectors, self._lanes = register_tile(element)

    def emit(self) -> None:
        """Emit the loops over columns, rows and k."""
        width = self._vectors * self._lanes
        panels, rest = divmod(self._n, width)
        if panels:
            counted(
                self._frame, panels, lambda i: self._panel(i, width, self._vectors, self._lanes)
            )
        # The columns that are left take vectors of just that many lanes: nothing beyond a row is touched.
        done = panels * width
        if rest >= self._lanes:
            self._panel_at(done, 1, self._lanes)
            done, rest = done + self._lanes, rest - self._lanes
        if rest:
            self._panel_at(done, 1, rest)

    def _panel_at(self, column: int, vectors: int, lanes: int) -> None:
        b = self._offset(self._origins[1], column * self._element.bytes)
        self._rows_of(r.number(r.I64, column), b, vectors, lanes)

    def _panel(self, index: Register, width: int, vectors: int, lanes: int) -> None:
        step = width * self._element.bytes if self._panel_step is None else self._panel_step
        b = move(self._frame, self._origins[1], index, step)
        column = self._frame.builder.mul(index, r.number(r.I64, width))
        self._rows_of(column, b, vectors, lanes)

    def _rows_of(self, column: Register, b: IrPointer, vectors: int, lanes: int) -> None:
        first = 0
        for count, rows in row_blocks(self._m, self._rows):

            def block(index: Register, first: int = first, rows: int = rows) -> None:
                builder = self._frame.builder
                row = builder.add(builder.mul(index, r.number(r.I64, rows)), r.number(r.I64, first))
                self._tile((row, column), b, rows, vectors, lanes)

            if count == 1:
                self._tile((r.number(r.I64, first), column), b, rows, vectors, lanes)
            else:
                counted(self._frame, count, block)
            first += count * rows

    def _tile(
        self, corner: tuple[Register, Register], b: IrPointer, rows: int, vectors: int, lanes: int
    ) -> None:
        frame, (row, _) = self._frame, corner
        a = move(frame, self._origins[0], row, self._a.step(frame.builder, -2))
        a_rows = [opaque(frame, self._row(a, self._a, i)) for i in range(rows)]
        type_ = r.register_type(self._element, lanes)
        # All of the block before k begins, and back after it ends: no sum is in memory meanwhile.
        sums = self._begun(row, self._initial(corner, rows, vectors, type_), rows)
        before, loop, after = frame.builder.block, frame.block("k"), frame.block("after")
        frame.builder.branch(loop)
        frame.start_block(loop)
        builder = frame.builder
        k = builder.phi(r.I64)
        k.add_incoming(r.number(r.I64, 0), before)
        totals = []
        for value in sums:
            total = builder.phi(type_)
            total.add_incoming(value, before)
            totals.append(total)
        new = self._step(k, totals, a_rows, b, vectors, type_)
        for total, value in zip(totals, new, strict=True):
            total.add_incoming(value, loop)
        following = builder.add(k, r.number(r.I64, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, as_register(self._k)), loop, after)
        frame.start_block(after)
        places = self._places(self._origins[3], self._out, corner, rows, vectors, lanes)
        for place, value in zip(places, new, strict=True):
            frame.builder.store(value, place).align = self._element.bytes

    def _initial(
        self, corner: tuple[Register, Register], rows: int, vectors: int, type_: IrType
    ) -> list[Register]:
        """Return the block of c, row after row."""
        if self._constant is not None:
            one = r.constant(self._element, self._constant, int(type_.count))
            return [one] * (rows * vectors)
        places = self._places(self._origins[2], self._c, corner, rows, vectors, int(type_.count))
        return [self._load(place, type_) for place in places]

    def _places(
        self,
        origin: IrPointer,
        matrix: Memory,
        corner: tuple[Register, Register],
        rows: int,
        vectors: int,
        lanes: int,
    ) -> list[IrPointer]:
        """Return where the vectors of a block lie, row after row."""
        size = self._element.bytes
        start = move(self._frame, origin, corner[0], matrix.step(self._frame.builder, -2))
        start = move(self._frame, start, corner[1], size)
        starts = [self._row(start, matrix, i) for i in range(rows)]
        return [self._offset(at, j * lanes * size) for at in starts for j in range(vectors)]

    def _begun(self, row: Register, sums: list[Register], rows: int) -> list[Register]:
        """Return the sums with which the rows of a register tile begin, row after row."""
        del row, rows
        return sums

    def _step(
        self,
        k: Register,
        totals: list[Register],
        a_rows: list[IrPointer],
        b: IrPointer,
        vectors: int,
        type_: IrType,
    ) -> list[Register]:
        frame, size = self._frame, self._element.bytes
        along = scaled(frame, k, self._along())
        b = move(frame, b, k, self._b.step(frame.builder, -2))
        lanes = int(type_.count)
        row = [self._load(self._offset(b, j * lanes * size), type_) for j in range(vectors)]
        new = []
        for i, a_row in enumerate(a_rows):
            place = frame.builder.gep(a_row, [along], source_etype=r.BYTE)
            value = self._load(place, r.register_type(self._element), self._a.element.bytes)
            factor = r.splat(frame.builder, value, lanes)
            new += [
                self._multiply_add(factor, row[j], totals[i * vectors + j]) for j in range(vectors)
            ]
        return new

    def _along(self) -> Stride:
        """Return the bytes between what two steps of k take from a row of A."""
        return self._a.step(self._frame.builder, -1)

    def _row(self, pointer: IrPointer, matrix: Memory, index: int) -> IrPointer:
        step = matrix.step(self._frame.builder, -2)
        if isinstance(step, int):
            return self._offset(pointer, index * step)
        return move(self._frame, pointer, r.number(r.I64, index), step)

    def _multiply_add(self, a: Register, b: Register, total: Register) -> Register:
        builder = self._frame.builder
        if not self._element.is_float:
            return builder.add(total, builder.mul(a, b))
        if not has_feature("fma") and not has_feature("neon"):
            return builder.fadd(
                total, builder.fmul(a, b)
            )  # rounds twice: other bits than elsewhere
        return r.intrinsic(builder, "fma", (a, b, total))

    def _offset(self, pointer: IrPointer, offset: int) -> IrPointer:
        if not offset:
            return pointer
        return self._frame.builder.gep(pointer, [r.number(r.I64, offset)], source_etype=r.BYTE)

    def _load(self, pointer: IrPointer, type_: IrType, align: int | None = None) -> Register:
        value = self._frame.builder.load(pointer, typ=type_)
        value.align = align or self._element.bytes
        return value
