"""Products of words in AMX's tile registers: 16 rows of A by 16 columns of B in one instruction, 64 bytes of k deep.

Four registers hold the sums of 32 rows and 32 columns, two hold rows of A, which are read where they lie, and two
columns of B, packed to words. The registers are set up for the extents that a block has, so that nothing beyond
them is read or written. Of int8 the sums are exact, modulo 2**32. Of bf16 an instruction adds the products of
the even values of k in one chain, those of the odd ones in another, and both to the sum; subnormals are zero. The scheme
is that of ``emu.kernels.gemm.amx``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.emit.addressing import as_register, counted, move
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.memory import Memory, Stride
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import IrPointer, Register
from emu.tile.types import BF16, DType

DEPTH = 64
"""Bytes along k of a row of a register."""

SIDE = 16
"""Rows of a register, and its columns of 32 bits."""

_BLOCK = 2 * SIDE
_WORDS = DEPTH // 4
_LEFT, _RIGHT = 4, 6  # the first registers of A and of B; the sums are in the first four
_POINTER, _VOID = ir.PointerType(), ir.VoidType()


class _Region(NamedTuple):
    """Blocks of equal extents along one axis.

    Attributes:
        first: Where the first begins.
        blocks: How many there are.
        extent: Rows or columns of each.
    """

    first: int
    blocks: int
    extent: int

    @property
    def parts(self) -> list[int]:
        """Rows or columns in each of one or two registers."""
        return [e for e in (min(self.extent, SIDE), self.extent - SIDE) if e > 0]


def _regions(extent: int) -> Iterator[_Region]:
    whole, rest = divmod(extent, _BLOCK)
    if whole:
        yield _Region(0, whole, _BLOCK)
    if rest:
        yield _Region(whole * _BLOCK, 1, rest)


class RegisterProduct:
    """One product of matrices.

    Args:
        frame: Where the code goes.
        element: Dtype of A and B: I8 or BF16.
        origins: Addresses of a, of b's words, of c and the result.
        matrices: How these lie.
        extents: m, words along k (a multiple of 16, perhaps known at run time only), and n.
        from_zero: Whether the sums begin with zero; else with what c holds.
        panel: Bytes between B's words of 32 columns and those of the next 32. Default: they lie side by side.
    """

    def __init__(
        self,
        frame: Frame,
        element: DType,
        origins: list[IrPointer],
        matrices: tuple[Memory, Memory, Memory, Memory],
        extents: tuple[int, Stride, int],
        from_zero: bool = False,
        panel: int | None = None,
    ) -> None:
        self._frame = frame
        self._instruction = "tdpbf16ps" if element == BF16 else "tdpbssd"
        self._origins = origins
        self._matrices = matrices
        self._m, self._words, self._n = extents
        self._from_zero = from_zero
        self._panel = panel

    def emit(self) -> None:
        """Emit the loops over columns, rows and k."""
        place = self._frame.variable(ir.VectorType(r.BYTE, 64))
        for across in _regions(self._n):
            for down in _regions(self._m):
                self._configure(place, down.parts, across.parts)
                self._columns(down, across)
        self._call("tilerelease")

    def _configure(self, place: IrPointer, tall: list[int], wide: list[int]) -> None:
        """Set up the registers for so many rows and columns in each."""
        rows, bytes_ = [0] * 8, [0] * 8
        for i, height in enumerate(tall):
            rows[_LEFT + i], bytes_[_LEFT + i] = height, DEPTH
            for j, width in enumerate(wide):
                rows[2 * i + j], bytes_[2 * i + j] = height, 4 * width
        for j, width in enumerate(wide):
            rows[_RIGHT + j], bytes_[_RIGHT + j] = SIDE, 4 * width
        # The palette, 15 bytes of zero, two bytes for the bytes of each row, one for the rows.
        words = [part for count in bytes_ for part in (count, 0)]
        all_bytes = [1, *[0] * 15, *words, *[0] * 16, *rows, *[0] * 8]
        value = ir.Constant(ir.VectorType(r.BYTE, 64), all_bytes)
        self._frame.builder.store(value, place).align = 1
        self._call("ldtilecfg", place)

    def _columns(self, down: _Region, across: _Region) -> None:
        frame = self._frame

        def of_block(index: Register) -> None:
            builder = frame.builder
            column = builder.add(
                builder.mul(index, r.number(r.I64, _BLOCK)), r.number(r.I64, across.first)
            )
            if self._panel is None:
                b = move(frame, self._origins[1], column, 4)
            else:
                number = builder.udiv(column, r.number(r.I64, _BLOCK))
                b = move(frame, self._origins[1], number, self._panel)
            self._rows(down, across, column, b)

        counted(frame, across.blocks, of_block)

    def _rows(self, down: _Region, across: _Region, column: Register, b: IrPointer) -> None:
        frame = self._frame

        def of_block(index: Register) -> None:
            builder = frame.builder
            row = builder.add(
                builder.mul(index, r.number(r.I64, _BLOCK)), r.number(r.I64, down.first)
            )
            self._block((row, column), b, down.parts, across.parts)

        counted(frame, down.blocks, of_block)

    def _block(
        self, corner: tuple[Register, Register], b: IrPointer, tall: list[int], wide: list[int]
    ) -> None:
        """Emit one block of sums, with k innermost."""
        frame = self._frame
        if self._from_zero:
            for i in range(len(tall)):
                for j in range(len(wide)):
                    self._call("tilezero", self._number(2 * i + j))
        else:
            self._move_sums("tileloadd64", 2, corner, (len(tall), len(wide)))
        left = self._matrices[0]
        a = move(frame, self._origins[0], corner[0], left.step(frame.builder, -2))
        if isinstance(self._words, int):
            steps: Stride = self._words // _WORDS
        else:
            steps = frame.builder.udiv(self._words, r.number(r.I64, _WORDS))

        def of_step(step: Register) -> None:
            self._step(step, a, b, (len(tall), len(wide)))

        counted(frame, steps, of_step)
        self._move_sums("tilestored64", 3, corner, (len(tall), len(wide)))

    def _step(self, step: Register, a: IrPointer, b: IrPointer, counts: tuple[int, int]) -> None:
        frame, (down, across) = self._frame, counts
        left, right = (matrix.step(frame.builder, -2) for matrix in self._matrices[:2])
        row = frame.builder.mul(step, r.number(r.I64, _WORDS))
        b = move(frame, b, row, right)
        a = move(frame, a, step, DEPTH)
        for j in range(across):
            at = move(frame, b, r.number(r.I64, j), 4 * SIDE)
            self._call("tileloadd64", self._number(_RIGHT + j), at, as_register(right))
        for i in range(down):
            at = move(frame, a, r.number(r.I64, i * SIDE), left)
            self._call("tileloadd64", self._number(_LEFT + i), at, as_register(left))
            for j in range(across):
                registers = (2 * i + j, _LEFT + i, _RIGHT + j)
                self._call(self._instruction, *map(self._number, registers))

    def _move_sums(
        self, what: str, which: int, corner: tuple[Register, Register], counts: tuple[int, int]
    ) -> None:
        """Load the sums of a block from a matrix, or store them there."""
        frame, (down, across) = self._frame, counts
        stride = self._matrices[which].step(frame.builder, -2)
        at = move(frame, self._origins[which], corner[0], stride)
        at = move(frame, at, corner[1], 4)
        for i in range(down):
            row = move(frame, at, r.number(r.I64, i * SIDE), stride)
            for j in range(across):
                place = move(frame, row, r.number(r.I64, j), 4 * SIDE)
                self._call(what, self._number(2 * i + j), place, as_register(stride))

    def _number(self, register: int) -> Register:
        return r.number(r.BYTE, register)

    def _call(self, name: str, *arguments: Register) -> None:
        builder = self._frame.builder
        kinds = [argument.type for argument in arguments]
        function = r.declare(builder, f"llvm.x86.{name}", _VOID, kinds)
        builder.call(function, list(arguments))
