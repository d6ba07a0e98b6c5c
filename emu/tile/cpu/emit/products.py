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

from llvmlite import ir

from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Memory, dense_strides
from emu.tile.cpu.native import has_feature
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation, Value
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.types import F32, F64, I32, I64, DType, ScalarType, element_of

_POINTER = ir.PointerType()


def _register_tile(element: ScalarType) -> tuple[int, int, int]:
    """Return the rows, the vectors per row and the lanes per vector of a register tile."""
    if has_feature("avx512f"):
        return 8, 2, 64 // element.bytes
    if has_feature("avx2"):
        return 4, 2, 32 // element.bytes
    return 4, 2, 16 // element.bytes


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
    with sums_of(frame, operation, element) as totals:
        matrices = operand(frame, a, element, False), operand(frame, b, element, True), totals

        def one(origins: list[IrPointer]) -> None:
            extents = a.shape[-2], a.shape[-1], b.shape[-1]
            Product(frame, element, origins, matrices, extents).emit()

        for_each_matrix(frame, a.shape[:-2], matrices, one)


@contextmanager
def sums_of(frame: Frame, operation: Operation, element: DType) -> Iterator[Memory]:
    """Give the memory in which a DOT adds, where c lies already; in the end the result lies where it belongs."""
    c, result = operation.operands[2], operation.result
    stored = frame.remember(result)
    # The sums lie in the result's own memory if that has their dtype: the result of a DOT that a loop carries may
    # lie where c lies (``plan.reuse``), and then nothing is copied.
    exact = stored.element == element and stored.strides == dense_strides(result.shape)
    totals = stored if exact else frame.new_copy(c, element)
    if frame.memories.get(c) is not totals:
        groups.copy_tile(frame, c, totals)
    yield totals
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
                move(frame, o, index, matrix.strides[depth] * matrix.element.bytes)
                for o, matrix in zip(origins, matrices, strict=True)
            ]
            one(moved, depth + 1)

        counted(frame, batch[depth], body)

    one([matrix.base for matrix in matrices], 0)


def operand(frame: Frame, value: Value, element: DType, rows: bool) -> Memory:
    """Return an operand's memory in the dtype of the computation; of B with its rows contiguous."""
    stored = frame.memory_of(value)
    if stored.element == element and (not rows or stored.strides[-1] == 1):
        return stored
    copy = frame.new_copy(value, element)
    groups.copy_tile(frame, value, copy)
    return copy


def move(frame: Frame, pointer: IrPointer, index: Register, step: int) -> IrPointer:
    """Emit an address moved by ``index`` steps of that many bytes."""
    offset = frame.builder.mul(index, r.number(r.I64, step))
    return frame.builder.gep(pointer, [offset], source_etype=r.BYTE)


def counted(frame: Frame, count: int, body: Callable[[Register], None]) -> None:
    """Emit a loop over 0, 1, ... ``count - 1`` (i64)."""
    if count == 1:
        body(r.number(r.I64, 0))
        return
    before, loop, after = frame.builder.block, frame.block("loop"), frame.block("after")
    frame.builder.branch(loop)
    frame.start_block(loop)
    index = frame.builder.phi(r.I64)
    index.add_incoming(r.number(r.I64, 0), before)
    body(index)
    builder = frame.builder
    following = builder.add(index, r.number(r.I64, 1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, r.number(r.I64, count)), loop, after)
    frame.start_block(after)


class Product:
    """One product of matrices.

    Args:
        frame: Where the code goes.
        element: Dtype in which is multiplied and added.
        origins: Addresses of a, b and c.
        matrices: How these lie.
        extents: m, k and n.
    """

    def __init__(
        self,
        frame: Frame,
        element: DType,
        origins: list[IrPointer],
        matrices: tuple[Memory, Memory, Memory],
        extents: tuple[int, int, int],
    ) -> None:
        self._frame = frame
        self._element = element
        self._origins = origins
        self._a, self._b, self._c = matrices
        self._m, self._k, self._n = extents
        self._rows, self._vectors, self._lanes = _register_tile(element)

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
        self._rows_of(r.number(r.I64, column), vectors, lanes)

    def _panel(self, index: Register, width: int, vectors: int, lanes: int) -> None:
        self._rows_of(self._frame.builder.mul(index, r.number(r.I64, width)), vectors, lanes)

    def _rows_of(self, column: Register, vectors: int, lanes: int) -> None:
        size = self._element.bytes
        b = move(self._frame, self._origins[1], column, size)
        c = move(self._frame, self._origins[2], column, size)
        blocks, rest = divmod(self._m, self._rows)

        def block(index: Register) -> None:
            row = self._frame.builder.mul(index, r.number(r.I64, self._rows))
            self._tile(row, self._rows, b, c, vectors, lanes)

        if blocks:
            counted(self._frame, blocks, block)
        if rest:
            self._tile(r.number(r.I64, blocks * self._rows), rest, b, c, vectors, lanes)

    def _tile(
        self, row: Register, rows: int, b: IrPointer, c: IrPointer, vectors: int, lanes: int
    ) -> None:
        frame, size = self._frame, self._element.bytes
        a = move(frame, self._origins[0], row, self._a.strides[-2] * size)
        c = move(frame, c, row, self._c.strides[-2] * size)
        type_ = r.register_type(self._element, lanes)
        places = [
            self._offset(c, (i * self._c.strides[-2] + j * lanes) * size)
            for i in range(rows)
            for j in range(vectors)
        ]
        # All of the block before k begins, and back after it ends: no sum is in memory meanwhile.
        sums = self._begun(row, [self._load(place, type_) for place in places], rows)
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
        new = self._step(k, totals, (a, b), rows, vectors, type_)
        for total, value in zip(totals, new, strict=True):
            total.add_incoming(value, loop)
        following = builder.add(k, r.number(r.I64, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, r.number(r.I64, self._k)), loop, after)
        frame.start_block(after)
        for place, value in zip(places, new, strict=True):
            frame.builder.store(value, place).align = size

    def _begun(self, row: Register, sums: list[Register], rows: int) -> list[Register]:
        """Return the sums with which the rows of a register tile begin, row after row."""
        del row, rows
        return sums

    def _step(
        self,
        k: Register,
        totals: list[Register],
        at: tuple[IrPointer, IrPointer],
        rows: int,
        vectors: int,
        type_: IrType,
    ) -> list[Register]:
        frame, size = self._frame, self._element.bytes
        a = move(frame, at[0], k, self._a.strides[-1] * size)
        b = move(frame, at[1], k, self._b.strides[-2] * size)
        lanes = int(type_.count)
        row = [self._load(self._offset(b, j * lanes * size), type_) for j in range(vectors)]
        new = []
        for i in range(rows):
            place = self._offset(a, i * self._a.strides[-2] * size)
            value = self._load(place, r.register_type(self._element))
            factor = r.splat(frame.builder, value, lanes)
            new += [
                self._multiply_add(factor, row[j], totals[i * vectors + j]) for j in range(vectors)
            ]
        return new

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

    def _load(self, pointer: IrPointer, type_: IrType) -> Register:
        value = self._frame.builder.load(pointer, typ=type_)
        value.align = self._element.bytes
        return value
