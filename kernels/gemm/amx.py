"""The innermost loop of a matrix product in AMX's tile registers.

A tile register holds 16 rows of 64 bytes. One instruction multiplies 16 rows of A, 64 bytes along k, by 16 columns
of B and adds to 16 × 16 sums of 32 bits: of int8 four neighbours along k at a time, of bf16 two. Four registers hold
the sums of 32 × 32 elements of C, two hold rows of A and two columns of B, so that each load serves two
instructions.

**What is computed.** For int8 the sums are exact modulo 2**32. For bf16 an instruction takes 32 values of k: the
products of the even ones are one chain of fused multiply-adds of fp32 from zero, those of the odd ones another;
both are added, and the result is added to the sum, each with a rounding of its own. Subnormals are taken and
left as zero.

The operands are packed in whole registers: A as blocks of 16 rows of 64 bytes, one after the other along k; B as
panels of 32 columns, a row of 128 bytes for each 32 bits along k. Both end with zeros where k does not fill a register.
C is read and written where it is: :func:`configure` says how many of its rows and columns there are.

The registers are numbered here, not by LLVM; nothing else may use them between :func:`configure` and
:func:`release`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import Intrinsic, IrBuilder, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import LAYOUT

_I8, _I64 = ir.IntType(8), ir.IntType(64)

SIDE = 16
"""Rows of a register, and its columns of 32 bits."""

DEPTH = 64
"""Bytes along k that an instruction takes."""

REGISTER_BYTES = SIDE * DEPTH

ROWS = COLUMNS = 2 * SIDE
"""Rows and columns of C of a full tile."""

PANEL_ROW = 4 * COLUMNS
"""Bytes of a row of a panel: 32 bits along k of each column."""

CONFIGURATION_BYTES = 64

_PALETTE, _ROW_BYTES, _ROWS = 0, 16, 48  # where a configuration has them
_LEFT, _RIGHT = 4, 6  # the first register of A and of B; the sums are in the first four


def _constant(n: int) -> IrValue:
    return ir.Constant(_I64, n)


def _call(builder: IrBuilder, name: str, *arguments: IrValue) -> None:
    if not LAYOUT.amx:  # never run then, and LLVM could not translate it
        return
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}")
    builder.call(function, arguments)


def _at(builder: IrBuilder, address: IrValue) -> IrValue:
    return builder.inttoptr(address, _I8.as_pointer())


@fixed_intrinsic(types.void, types.int64)
def _load_configuration(builder: IrBuilder, address: IrValue) -> None:
    _call(builder, "ldtilecfg", _at(builder, address))


@fixed_intrinsic(types.void)
def release(builder: IrBuilder) -> None:
    """Give the registers back: they need not be saved with the thread any more."""
    _call(builder, "tilerelease")


@jit(inline="always")
def _part(extent: int, second: int) -> int:
    """Return what the first or the second of two registers has of ``extent`` rows or columns."""
    return max(min(extent - second * SIDE, SIDE), 0)


@jit()
def configure(place: int, rows: int, columns: int) -> None:
    """Set the registers up for tiles of C of so many rows and columns; what they held is lost.

    Args:
        place: Address of :data:`CONFIGURATION_BYTES` bytes to write to.
        rows: Rows of C, 1 to :data:`ROWS`.
        columns: Columns of C, 1 to :data:`COLUMNS`.
    """
    all_bytes = carray(as_pointer(place), (CONFIGURATION_BYTES,), np.uint8)
    row_bytes = carray(as_pointer(place + _ROW_BYTES), (8,), np.uint16)
    all_bytes[:] = 0
    all_bytes[_PALETTE] = 1
    for i in range(2):
        tall, wide = _part(rows, i), _part(columns, i)
        if tall:
            all_bytes[_ROWS + _LEFT + i], row_bytes[_LEFT + i] = tall, DEPTH
        if wide:
            all_bytes[_ROWS + _RIGHT + i], row_bytes[_RIGHT + i] = SIDE, 4 * wide
        for j in range(2):
            across = _part(columns, j)
            if tall and across:
                all_bytes[_ROWS + 2 * i + j], row_bytes[2 * i + j] = tall, 4 * across
    _load_configuration(place)


class _Emitter:
    """Emits the product of ``down`` by ``across`` registers of sums at the builder's position."""

    def __init__(self, builder: IrBuilder, instruction: str, down: int, across: int) -> None:
        self.builder = builder
        self.instruction = instruction
        self.down = down
        self.across = across

    def load(self, register: int, address: IrValue, stride: IrValue) -> None:
        number = ir.Constant(_I8, register)
        _call(self.builder, "tileloadd64", number, _at(self.builder, address), stride)

    def sums(self, c: IrValue, stride: IrValue) -> list[tuple[int, IrValue]]:
        """Return the registers of the sums, and where these lie in C."""
        builder = self.builder
        rows = [c, builder.add(c, builder.mul(stride, _constant(SIDE)))]
        return [
            (2 * i + j, builder.add(rows[i], _constant(4 * SIDE * j)))
            for i in range(self.down)
            for j in range(self.across)
        ]

    def begin(self, places: list[tuple[int, IrValue]], stride: IrValue, further: IrValue) -> None:
        builder = self.builder
        fresh, reload, ready = (builder.append_basic_block() for _ in range(3))
        builder.cbranch(builder.icmp_signed("!=", further, _constant(0)), reload, fresh)
        builder.position_at_end(reload)
        for register, place in places:
            self.load(register, place, stride)
        builder.branch(ready)
        builder.position_at_end(fresh)
        for register, _ in places:
            _call(builder, "tilezero", ir.Constant(_I8, register))
        builder.branch(ready)
        builder.position_at_end(ready)

    def step(self, a: IrValue, below: IrValue, panel: IrValue) -> None:
        builder = self.builder
        for j in range(self.across):
            place = builder.add(panel, _constant(4 * SIDE * j))
            self.load(_RIGHT + j, place, _constant(PANEL_ROW))
        for i in range(self.down):
            self.load(_LEFT + i, a if i == 0 else builder.add(a, below), _constant(DEPTH))
            for j in range(self.across):
                registers = (2 * i + j, _LEFT + i, _RIGHT + j)
                _call(builder, self.instruction, *(ir.Constant(_I8, n) for n in registers))

    def emit(
        self,
        left: tuple[IrValue, IrValue],
        panel: IrValue,
        steps: IrValue,
        c: tuple[IrValue, IrValue],
        further: IrValue,
    ) -> None:
        builder, (a, below), (base, stride) = self.builder, left, c
        places = self.sums(base, stride)
        self.begin(places, stride, further)
        before, loop, done = builder.block, *(builder.append_basic_block() for _ in range(2))
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(_I64)
        step.add_incoming(_constant(0), before)
        at = builder.add(a, builder.mul(step, _constant(REGISTER_BYTES)))
        row = builder.add(panel, builder.mul(step, _constant(SIDE * PANEL_ROW)))
        self.step(at, below, row)
        following = builder.add(step, _constant(1))
        step.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, done)
        builder.position_at_end(done)
        for register, place in places:
            number = ir.Constant(_I8, register)
            _call(builder, "tilestored64", number, _at(builder, place), stride)


def _micro_kernel(instruction: str, down: int, across: int) -> Intrinsic:
    """Make ``kernel(a, below, panel, steps, c, stride, further)``.

    ``a`` is the address of packed rows of A, ``below`` the bytes to the 16 rows after them, ``panel`` the address of
    a packed panel of B. ``steps`` is how many registers k fills, at least 1. ``c`` is the address of the tile,
    ``stride`` the bytes between its rows. The sums start from zero where ``further`` is 0, else from what C holds.
    """

    @fixed_intrinsic(types.void, *[types.int64] * 7)
    def micro_kernel(
        builder: IrBuilder,
        a: IrValue,
        below: IrValue,
        panel: IrValue,
        steps: IrValue,
        c: IrValue,
        stride: IrValue,
        further: IrValue,
    ) -> None:
        emitter = _Emitter(builder, instruction, down, across)
        emitter.emit((a, below), panel, steps, (c, stride), further)

    return micro_kernel


INT8, BF16 = "tdpbssd", "tdpbf16ps"
"""Instructions: of signed bytes into int32, of bf16 into fp32."""

int8_whole, bf16_whole = _micro_kernel(INT8, 2, 2), _micro_kernel(BF16, 2, 2)
int8_low, bf16_low = _micro_kernel(INT8, 1, 2), _micro_kernel(BF16, 1, 2)
int8_narrow, bf16_narrow = _micro_kernel(INT8, 2, 1), _micro_kernel(BF16, 2, 1)
int8_small, bf16_small = _micro_kernel(INT8, 1, 1), _micro_kernel(BF16, 1, 1)
