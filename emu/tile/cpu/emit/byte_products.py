"""DOT of int8 in int32, and native of bf16 in fp32, by instructions that multiply neighbours along k and add them.

A word of 32 bits holds four neighbours along k of a row of A, or of a column of B, which is packed so first. One
instruction multiplies the words of a vector of columns by the same word of A and adds the four products to the sums. It
takes the bytes of one side as unsigned: B's are stored with 128 added, and each sum begins with 128 times the sum
of its row of A less. CPUs without that instruction take words of two 16-bit integers. All of it is exact, modulo 2**32. Words of bf16 hold two neighbours; the instruction
rounds after each of their products and takes subnormals for zero.

AMX takes the same words, of signed bytes or of bf16, where the extent of k fills its registers (:mod:`register_products`).
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.emit import register_products
from emu.tile.cpu.emit.addressing import alternating, counted, move
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Memory, Stride, dense_strides
from emu.tile.cpu.emit.products import (
    Product,
    for_each_matrix,
    operand,
    register_tile,
    sums_of,
)
from emu.tile.cpu.native import has_feature
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import constant_of
from emu.tile.ir import Operation
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.types import BF16, F32, I8, I16, I32, DType, element_of

_BIAS = 128
CHUNK = 64  # bytes of a row of A that are added at once


class _Instruction(NamedTuple):
    """How words are multiplied.

    Attributes:
        lanes: Sums of an instruction.
        element: Dtype of a word's parts.
        in_registers: Whether it is AMX's, of 16 rows at once.
    """

    lanes: int
    element: DType
    in_registers: bool = False

    @property
    def is_biased(self) -> bool:
        """Whether B's bytes are stored with 128 added."""
        return self.element == I8 and not self.in_registers

    @property
    def parts(self) -> int:
        """Neighbours along k in a word."""
        return 4 // self.element.bytes

    @property
    def stored(self) -> DType:
        """Dtype of B before it is packed."""
        return BF16 if self.element == BF16 else I8

    @property
    def total(self) -> DType:
        """Dtype of the sums."""
        return F32 if self.element == BF16 else I32


def _instructions() -> list[_Instruction]:
    """Return what the CPU has, the fastest first."""
    vnni, wide = has_feature("avx512vnni"), has_feature("avx512bw")
    found = []
    if vnni:
        found.append(_Instruction(16, I8))
    if (vnni and has_feature("avx512vl")) or has_feature("avxvnni"):
        found.append(_Instruction(8, I8))
    if wide:
        found.append(_Instruction(16, I16))
    if has_feature("avx2"):
        found.append(_Instruction(8, I16))
    return found


def _instruction_of(operation: Operation) -> _Instruction | None:
    a, b, _ = operation.operands
    k, n = b.shape[-2:]
    if operation.attributes.get("native"):
        if _fits_registers(operation, "amx-bf16"):
            return _Instruction(16, BF16, True)
        found = [_Instruction(16, BF16)] if has_feature("avx512bf16") else []
    elif [element_of(v.type) for v in (a, b, operation.result)] != [I8, I8, I32]:
        return None
    elif _fits_registers(operation, "amx-int8"):
        return _Instruction(16, I8, True)
    else:
        found = _instructions()
    for one in found:
        if k % one.parts == 0 and n % one.lanes == 0:
            return one
    return None


def _fits_registers(operation: Operation, feature: str) -> bool:
    """Return whether AMX's registers are here, the extents fill them, and the sums begin as they can."""
    _, b, c = operation.operands
    k, n = b.shape[-2:]
    return (
        has_feature(feature)
        and k * element_of(b.type).bytes % register_products.DEPTH == 0
        and n % register_products.SIDE == 0
        and not constant_of(c)
    )


def is_covered(operation: Operation) -> bool:
    """Return whether :func:`emit_dot` can emit a DOT, for its dtypes, its extents, and this CPU."""
    return _instruction_of(operation) is not None


def reads_bytes(operation: Operation) -> bool:
    """Return whether the product takes the words of A as they are, in rows that lie side by side along k."""
    instruction = _instruction_of(operation)
    return instruction is not None and instruction.element == instruction.stored


def emit_dot(frame: Frame, operation: Operation) -> None:
    """Emit a DOT by words: into the memory that its result has, or into new memory."""
    instruction = _instruction_of(operation)
    assert instruction is not None
    a, b, c = operation.operands
    *batch, m, k = a.shape
    n, parts = b.shape[-1], instruction.parts
    with sums_of(frame, operation, instruction.total) as sums:
        left = operand(frame, a, instruction.element, True)
        right = operand(frame, b, instruction.stored, True)
        packed = frame.new_copy(b, instruction.element)
        starts = frame.new_copy(c, I32)
        rows = Memory(starts.base, I32, dense_strides((*batch, m)))
        words = Memory(packed.base, I32, dense_strides((*batch, k // parts, n)))
        matrices = left, right, sums.begin, sums.end, words, rows

        def one(origins: list[IrPointer]) -> None:
            from_a, from_b, from_c, to_c, to_words, to_rows = origins
            _pack(frame, instruction, from_b, right.step(frame.builder, -2), to_words, (k, n))
            if instruction.in_registers:
                registers = register_products.RegisterProduct(
                    frame,
                    instruction.element,
                    [from_a, to_words, from_c, to_c],
                    (left, words, sums.begin, sums.end),
                    (m, k // parts, n),
                    sums.constant is not None,
                )
                registers.emit()
                return
            if instruction.is_biased:
                _sum_rows(frame, from_a, left.step(frame.builder, -2), to_rows, (m, k))
            product = _WordProduct(
                frame,
                instruction.total,
                [from_a, to_words, from_c, to_c],
                (left, words, sums.begin, sums.end),
                (m, k // parts, n),
                sums.constant,
            )
            product.use(instruction, to_rows)
            product.emit()

        for_each_matrix(frame, batch, matrices, one)


def width(operation: Operation) -> int:
    """Return the columns of a register tile."""
    instruction = _instruction_of(operation)
    assert instruction is not None
    return register_tile(I32)[1] * instruction.lanes


def emit_panels(
    frame: Frame,
    operation: Operation,
    matrices: tuple[Memory, Memory, Memory],
    extent: Register,
    rounds: int,
) -> None:
    """Emit a product by words with an extent of k that is known at run time.

    Args:
        frame: The function.
        operation: The DOT of one round; its columns must fill register tiles.
        matrices: Of the parts of words, A with rows and B with columns side by side, and of the sums.
        extent: Of k (i64), for int8 a multiple of 64.
        rounds: Rounds that ``extent`` is at most.
    """
    instruction = _instruction_of(operation)
    assert instruction is not None
    (m, k), n = operation.operands[0].shape, operation.operands[1].shape[-1]
    a, b, totals = matrices
    columns, parts = width(operation), instruction.parts
    room, size = rounds * k * columns * (4 // parts), instruction.stored.bytes
    packed = frame.new_copy(operation.operands[1], I8, (n // columns, room))
    starts = frame.new_copy(operation.operands[1], I32, (m,))

    def of_panel(panel: Register) -> None:
        source = move(frame, b.base, panel, columns * size)
        to = move(frame, packed.base, panel, room)
        _pack(frame, instruction, source, b.step(frame.builder, -2), to, (extent, columns))

    counted(frame, n // columns, of_panel)
    if instruction.is_biased:
        _sum_rows(frame, a.base, a.step(frame.builder, -2), starts.base, (m, extent))
    words = frame.builder.udiv(extent, r.number(r.I64, parts))
    origins = [a.base, packed.base, totals.base, totals.base]
    given = a, Memory(packed.base, I32, (columns, 1)), totals, totals
    if instruction.in_registers:
        element = instruction.element
        register_products.RegisterProduct(
            frame, element, origins, given, (m, words, n), panel=room
        ).emit()
        return
    product = _WordProduct(frame, instruction.total, origins, given, (m, words, n), panel=room)
    product.use(instruction, starts.base)
    product.emit()


def _pack(
    frame: Frame,
    instruction: _Instruction,
    source: IrPointer,
    stride: Stride,
    target: IrPointer,
    extents: tuple[Stride, int],
) -> None:
    """Emit the copy of B's matrix to words, row of words after row of words."""
    (k, n), lanes, parts = extents, instruction.lanes, instruction.parts
    size = instruction.stored.bytes

    def of_rows(row: Register) -> None:
        first = move(frame, source, frame.builder.mul(row, r.number(r.I64, parts)), stride)
        rows = [move(frame, first, r.number(r.I64, part), stride) for part in range(parts)]
        to = move(frame, target, row, n * 4)

        def of_columns(column: Register) -> None:
            builder = frame.builder
            values = []
            for start in rows:
                place = move(frame, start, column, lanes * size)
                value = builder.load(place, typ=ir.VectorType(ir.IntType(8 * size), lanes))
                value.align = size
                values.append(value)
            if parts == 2 and size == 1:
                values = [builder.sext(v, ir.VectorType(r.I16, lanes)) for v in values]
            elif parts == 4:
                if instruction.is_biased:
                    values = [builder.xor(v, r.number(v.type, _BIAS)) for v in values]
                pairs = [alternating(builder, *values[i : i + 2]) for i in (0, 2)]
                values = [builder.bitcast(p, ir.VectorType(r.I16, lanes)) for p in pairs]
            words = alternating(builder, *values)
            place = move(frame, to, column, lanes * 4)
            builder.store(words, place).align = 4

        counted(frame, n // lanes, of_columns)

    counted(frame, _divided(frame, k, parts), of_rows)


def _divided(frame: Frame, number: Stride, divisor: int) -> Stride:
    if isinstance(number, int):
        return number // divisor
    return frame.builder.udiv(number, r.number(r.I64, divisor))


def _sum_rows(
    frame: Frame,
    source: IrPointer,
    stride: Stride,
    target: IrPointer,
    extents: tuple[int, Stride],
) -> None:
    """Emit 128 times the sum of each row of A."""
    m, k = extents
    chunk = min(CHUNK, k & -k) if isinstance(k, int) else CHUNK
    by_fours = chunk % 32 == 0 and (chunk == 32 or has_feature("avx512vnni"))
    words = ir.VectorType(r.I32, chunk // 4 if by_fours else chunk)
    loaded = words if by_fours else ir.VectorType(r.BYTE, chunk)
    add, factor = (_add_fours, 1) if by_fours else (_add_bytes, _BIAS)

    def of_row(row: Register) -> None:
        at = move(frame, source, row, stride)
        total = frame.variable(words)
        frame.builder.store(r.number(words, 0), total)

        def of_chunk(index: Register) -> None:
            builder = frame.builder
            value = builder.load(move(frame, at, index, chunk), typ=loaded)
            value.align = 1
            builder.store(add(builder, builder.load(total, typ=words), value), total)

        counted(frame, _divided(frame, k, chunk), of_chunk)
        _store_sum(frame, total, words, move(frame, target, row, 4), factor)

    counted(frame, m, of_row)


def _add_fours(builder: ir.IRBuilder, before: Register, words: Register) -> Register:
    """Emit words plus 128 times the bytes of others, four to a word."""
    type_ = words.type
    bias = builder.bitcast(r.number(ir.VectorType(r.BYTE, 4 * type_.count), _BIAS), type_)
    name = f"llvm.x86.avx512.vpdpbusd.{32 * type_.count}"
    function = r.declare(builder, name, type_, [type_] * 3)
    return builder.call(function, [before, bias, words])


def _add_bytes(builder: ir.IRBuilder, before: Register, bytes_: Register) -> Register:
    return builder.add(before, builder.sext(bytes_, before.type))


def _store_sum(
    frame: Frame, total: IrPointer, words: IrType, place: IrPointer, factor: int
) -> None:
    """Emit the sum of the lanes of a variable, times a factor."""
    builder = frame.builder
    name = f"llvm.vector.reduce.add.v{words.count}i32"
    reduced = r.declare(builder, name, r.I32, [words])
    whole = builder.call(reduced, [builder.load(total, typ=words)])
    builder.store(builder.mul(whole, r.number(r.I32, factor)), place).align = 4


class _WordProduct(Product):
    """One product of matrices of words."""

    def use(self, instruction: _Instruction, starts: IrPointer) -> None:
        """Say how words are multiplied, and where what each row begins with less lies."""
        self._instruction, self._starts = instruction, starts
        self._lanes = instruction.lanes

    def _along(self) -> Stride:
        return 4  # a word, whatever its parts are

    def _begun(self, row: Register, sums: list[Register], rows: int) -> list[Register]:
        if not self._instruction.is_biased:
            return sums
        builder, vectors = self._frame.builder, len(sums) // rows
        at = move(self._frame, self._starts, row, 4)
        begun = []
        for i in range(rows):
            less = self._load(self._offset(at, 4 * i), r.I32)
            spread = r.splat(builder, less, self._instruction.lanes)
            begun += [builder.sub(s, spread) for s in sums[i * vectors : (i + 1) * vectors]]
        return begun

    def _multiply_add(self, a: Register, b: Register, total: Register) -> Register:
        builder, lanes = self._frame.builder, self._instruction.lanes
        if self._instruction.element == BF16:
            # Its operands are bf16 in LLVM, which still takes this older form and converts it.
            words = ir.VectorType(r.I32, lanes)
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
            function = r.declare(builder, name, total.type, [total.type, words, words])
            return builder.call(function, [total, *(builder.bitcast(x, words) for x in (a, b))])
        if self._instruction.element == I8:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
            function = r.declare(builder, name, total.type, [total.type] * 3)
            return builder.call(function, [total, b, a])
        halves = ir.VectorType(r.I16, 2 * lanes)
        name = "llvm.x86.avx512.pmaddw.d.512" if lanes == 16 else "llvm.x86.avx2.pmadd.wd"
        function = r.declare(builder, name, total.type, [halves] * 2)
        pairs = builder.call(function, [builder.bitcast(x, halves) for x in (a, b)])
        return builder.add(total, pairs)
