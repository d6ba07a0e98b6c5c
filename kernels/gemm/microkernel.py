"""The innermost loop of a matrix product: one tile of C, held in vector registers.

A micro-kernel multiplies ``rows`` rows of A by one packed panel of B and keeps the ``rows`` times
``columns`` sums in registers while k runs: each step loads one row of the panel, broadcasts one
element of each row of A, and does one multiply-add a register. LLVM's loop vectoriser does not find
this form by itself, so the loop is emitted as LLVM instructions, with vectors of the width that the
CPU has (:data:`LAYOUT`). What is emitted is plain LLVM (and x86's integer dot products where the CPU
has them): no assembly, so that every target which LLVM knows can run it.

**Why the tile has this size.** A fused multiply-add takes 4 cycles and two start in each: at least
8 sums must be in flight, and the loads of a step (``rows`` broadcasts, ``columns / lanes`` vectors)
must take no longer than its multiply-adds. With 32 registers of 512 bits 8 × 32 does that and divides
the usual sizes; with 16 registers of 256 bits 6 × 16 is the largest that fits.

**What is computed.** Every element of C is one chain: ``sum = fma(a[k], b[k], sum)``, k increasing,
from zero or from the value that C holds. The result therefore does not depend on how the product
was cut into tiles, as long as each chain goes on where it stopped.
The exception is what is asked for by name: ``PAIRS`` adds the products of two neighbours along k by one
instruction, which rounds as its CPU does.

A is read in place, row by row, at any row stride; only its elements within a row must be contiguous.
That saves packing it where it already is like that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

from emu.kernels.core.annotations import (
    Intrinsic,
    IrBuilder,
    IrType,
    IrValue,
    IrValues,
    NumbaType,
    Signature,
    TargetContext,
    Typed,
    TypingContext,
)
from emu.kernels.core.jit import intrinsic

_I32, _I64 = ir.IntType(32), ir.IntType(64)

MultiplyAdd: TypeAlias = Callable[[IrBuilder, IrValue, IrValue, IrValue], IrValue]


def cpu_features() -> frozenset[str]:
    """Return the features of the CPU that Numba compiles for, as LLVM calls them."""
    set_by_user = vars(config)
    if set_by_user["CPU_FEATURES"] is not None or set_by_user["CPU_NAME"] is not None:
        words = (set_by_user["CPU_FEATURES"] or "").split(",")
        return frozenset(word[1:] for word in words if word.startswith("+"))
    return frozenset(name for name, here in llvm.get_host_cpu_features().items() if here)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes that depend on the CPU."""

    vector_bytes: int
    rows: int
    """Rows of C in a full tile."""
    vectors: int
    """Vector registers in a row of a tile."""
    fused: bool
    """The CPU multiplies and adds with one rounding."""
    dot: str
    """Way of multiplying int8: ``vnni`` (groups of 4 bytes), ``madd`` (pairs of 16 bits), ``plain``."""
    pairs: str = ""
    """Instruction that multiplies pairs of bf16 and adds them in fp32: ``vdpbf16ps``, ``bfdot``; empty: none."""
    block: tuple[int, int] = (96, 256)
    """Rows of A and steps of k that stay in the L2 cache while panels of B pass; measured in docs/dev/products.md."""
    ahead: bool = False
    """Ask for the next tile of C and the next panel of B while a tile is computed."""
    together: int = 1
    """Panels of B that are packed side by side, so that rows of B are read in longer stretches."""
    amx: bool = False
    """The CPU has AMX's tile registers, for int8 and bf16 (:mod:`emu.kernels.gemm.amx`)."""


def choose_layout(features: frozenset[str], x86: bool) -> Layout:
    """Return the layout for a CPU."""
    if not x86:  # aarch64: 32 registers of 128 bits
        pairs = "bfdot" if "bf16" in features else ""
        return Layout(vector_bytes=16, rows=8, vectors=2, fused=True, dot="plain", pairs=pairs)
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= features:
        dot = "vnni" if "avx512vnni" in features else "madd"
        pairs = "vdpbf16ps" if "avx512bf16" in features else ""
        amx = {"amx-tile", "amx-int8", "amx-bf16", "avx512vnni", "avx512bf16"} <= features
        return Layout(vector_bytes=64, rows=8, vectors=2, fused=True, dot=dot, pairs=pairs, amx=amx)
    if {"avx2", "fma"} <= features:
        return Layout(
            vector_bytes=32,
            rows=6,
            vectors=2,
            fused=True,
            dot="madd",
            block=(144, 384),
            ahead=True,
            together=4,
        )
    return Layout(vector_bytes=16, rows=4, vectors=2, fused=False, dot="plain")


LAYOUT = choose_layout(
    cpu_features(), llvm.get_default_triple().split("-", 1)[0] in ("x86_64", "i686")
)
"""The layout that the kernels are compiled with."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """Element type of a micro-kernel: what its vectors hold."""

    name: str
    kind: IrType
    """LLVM type of an element of a packed operand and of a sum."""
    size: int
    multiply_add: MultiplyAdd
    align: int
    """Bytes by which the address of an element is divisible: those of its smallest part."""

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LAYOUT.vector_bytes // self.size

    @property
    def vector(self) -> IrType:
        """LLVM type of a vector."""
        return ir.VectorType(self.kind, self.lanes)


def _float_multiply_add(builder: IrBuilder, a: IrValue, b: IrValue, total: IrValue) -> IrValue:
    if not LAYOUT.fused:
        return builder.fadd(total, builder.fmul(a, b))
    vector = a.type
    width = 32 if isinstance(vector.element, ir.FloatType) else 64
    name = f"llvm.fma.v{vector.count}f{width}"
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), name
    )
    return builder.call(fma, [a, b, total])


def _dot_multiply_add(builder: IrBuilder, a: IrValue, b: IrValue, total: IrValue) -> IrValue:
    """Add the products within each 32-bit group of ``a`` and ``b`` to ``total``; exact modulo 2**32."""
    vector = total.type
    if LAYOUT.dot == "vnni":
        # Its operands are bytes since LLVM 22, which still takes this older form and converts it.
        name = f"llvm.x86.avx512.vpdpbusd.{8 * LAYOUT.vector_bytes}"
        kind = ir.FunctionType(vector, [vector] * 3)
        dot = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(dot, [total, a, b])
    if LAYOUT.dot == "plain":
        return builder.add(total, builder.mul(a, b))
    halves = ir.VectorType(ir.IntType(16), LAYOUT.vector_bytes // 2)
    name = "llvm.x86.avx512.pmaddw.d.512" if LAYOUT.vector_bytes == 64 else "llvm.x86.avx2.pmadd.wd"
    madd = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [halves] * 2), name
    )
    products = builder.call(madd, [builder.bitcast(a, halves), builder.bitcast(b, halves)])
    return builder.add(total, products)


def _pairs_multiply_add(builder: IrBuilder, a: IrValue, b: IrValue, total: IrValue) -> IrValue:
    """Add the two products of bf16 within each 32 bits of ``a`` and ``b`` to ``total``."""
    vector = total.type
    # The operands of both are bf16 in LLVM, which still takes these older forms and converts them.
    if LAYOUT.pairs == "vdpbf16ps":
        operand, name = ir.VectorType(_I32, vector.count), "llvm.x86.avx512bf16.dpbf16ps.512"
    else:
        operand, name = ir.VectorType(ir.IntType(8), 16), "llvm.aarch64.neon.bfdot.v4f32.v16i8"
    kind = ir.FunctionType(vector, [vector, operand, operand])
    dot = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(dot, [total, builder.bitcast(a, operand), builder.bitcast(b, operand)])


F32 = Element(name="f32", kind=ir.FloatType(), size=4, multiply_add=_float_multiply_add, align=4)
F64 = Element(name="f64", kind=ir.DoubleType(), size=8, multiply_add=_float_multiply_add, align=8)
DOT = Element(name="dot", kind=_I32, size=4, multiply_add=_dot_multiply_add, align=4)
"""A group of int8 or int16 values in 32 bits; the sums are int32."""
PAIRS = Element(
    name="pairs", kind=ir.FloatType(), size=4, multiply_add=_pairs_multiply_add, align=2
)
"""Two bf16 in 32 bits; the sums are fp32."""

BF16_PAIRS = 1000
"""Arithmetic kind of a product of bf16 by the CPU's own instruction (``PAIRS``); beyond those of dtypes."""

INT8_AMX, BF16_AMX = 1001, 1002
"""Arithmetic kinds of products in AMX's tile registers."""

GROUP = {"vnni": 4, "madd": 2, "plain": 1}[LAYOUT.dot]
"""Values of k that one step of the ``DOT`` kernel takes."""


def _constant(n: int) -> IrValue:
    return ir.Constant(_I64, n)


def broadcast(builder: IrBuilder, value: IrValue, vector: IrType) -> IrValue:
    """Return a vector that holds ``value`` in each lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    lanes = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, lanes)


def prefetch_to_l2(builder: IrBuilder, address: IrValue) -> None:
    """Ask for the cache line at an address, which need not be one of the process's."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    read, locality, data = (ir.Constant(_I32, n) for n in (0, 2, 1))
    builder.call(ask, [builder.inttoptr(address, pointer), read, locality, data])


class _Emitter:
    """Emits one micro-kernel at the builder's position; leaves the builder after it."""

    def __init__(
        self, builder: IrBuilder, element: Element, rows: int, vectors: int, arguments: IrValues
    ) -> None:
        self.builder = builder
        self.element = element
        self.rows = rows
        self.vectors = vectors
        a, b, self.steps, c, self.accumulate = arguments
        self.a, self.a_stride = (builder.extract_value(a, i) for i in range(2))
        self.b, self.b_stride = (builder.extract_value(b, i) for i in range(2))
        self.c, self.c_stride = (builder.extract_value(c, i) for i in range(2))

    def at(self, address: IrValue, kind: IrType) -> IrValue:
        return self.builder.inttoptr(address, kind.as_pointer())

    def rows_from(self, base: IrValue, stride: IrValue) -> list[IrValue]:
        found = [base]
        for _ in range(1, self.rows):
            found.append(self.builder.add(found[-1], stride))
        return found

    def tile_pointers(self) -> list[IrValue]:
        return [
            self.at(self.builder.add(row, _constant(v * LAYOUT.vector_bytes)), self.element.vector)
            for row in self.rows_from(self.c, self.c_stride)
            for v in range(self.vectors)
        ]

    def load(self, pointer: IrValue, align: int) -> IrValue:
        value = self.builder.load(pointer)
        value.align = align
        return value

    def emit(self) -> None:
        builder = self.builder
        pointers = self.tile_pointers()
        a_rows = self.rows_from(self.a, self.a_stride)
        if LAYOUT.ahead and self.rows > 1:
            below = builder.add(self.c, builder.mul(self.c_stride, _constant(self.rows)))
            for row in self.rows_from(below, self.c_stride):
                prefetch_to_l2(builder, row)
        entry = builder.block
        reload, loop, done = (builder.append_basic_block(n) for n in ("reload", "loop", "done"))
        builder.cbranch(builder.icmp_signed("!=", self.accumulate, _constant(0)), reload, loop)

        builder.position_at_end(reload)
        stored = [self.load(pointer, self.element.size) for pointer in pointers]
        builder.branch(loop)

        builder.position_at_end(loop)
        zero = ir.Constant(self.element.vector, None)
        sums = [builder.phi(self.element.vector) for _ in pointers]
        step, panel = builder.phi(_I64), builder.phi(_I64)
        for total, value in zip(sums, stored, strict=True):
            total.add_incoming(zero, entry)
            total.add_incoming(value, reload)
        for block in (entry, reload):
            step.add_incoming(_constant(0), block)
            panel.add_incoming(self.b, block)
        new = self.step(sums, a_rows, step, panel)
        for total, value in zip(sums, new, strict=True):
            total.add_incoming(value, loop)
        next_step = builder.add(step, _constant(1))
        step.add_incoming(next_step, loop)
        panel.add_incoming(builder.add(panel, self.b_stride), loop)
        builder.cbranch(builder.icmp_signed("<", next_step, self.steps), loop, done)

        builder.position_at_end(done)
        for value, pointer in zip(new, pointers, strict=True):
            builder.store(value, pointer).align = self.element.size

    def step(
        self, sums: list[IrValue], a_rows: list[IrValue], step: IrValue, panel: IrValue
    ) -> list[IrValue]:
        builder, element = self.builder, self.element
        b = [
            self.load(
                self.at(builder.add(panel, _constant(v * LAYOUT.vector_bytes)), element.vector),
                element.align,
            )
            for v in range(self.vectors)
        ]
        offset = builder.mul(step, _constant(element.size))
        new = []
        for r, row in enumerate(a_rows):
            value = self.load(self.at(builder.add(row, offset), element.kind), element.align)
            a = broadcast(builder, value, element.vector)
            new += [
                element.multiply_add(builder, a, b[v], sums[r * self.vectors + v])
                for v in range(self.vectors)
            ]
        return new


def _micro_kernel(element: Element, rows: int, vectors: int = LAYOUT.vectors) -> Intrinsic:
    """Make ``kernel(a, b, steps, c, accumulate)``.

    ``a`` and ``c`` are the rows of A and of the tile, ``b`` is a panel, a row per k: pairs of an address and
    the bytes from row to row (``operands.Rows``). ``steps`` is how far k runs, at least 1. The sums start
    from zero where ``accumulate`` is 0, else from what C holds.
    """

    @intrinsic
    def micro_kernel(
        typingctx: TypingContext,
        a: NumbaType,
        b: NumbaType,
        steps: NumbaType,
        c: NumbaType,
        accumulate: NumbaType,
    ) -> Typed:
        def codegen(
            context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
        ) -> IrValue:
            _Emitter(builder, element, rows, vectors, args).emit()
            return context.get_dummy_value()

        return types.void(a, b, types.int64, c, types.int64), codegen

    return micro_kernel


ROWS = LAYOUT.rows
"""Rows of a full tile."""

COLUMNS_32 = LAYOUT.vectors * LAYOUT.vector_bytes // 4
"""Columns of a tile, and of a panel of B, of 32-bit elements."""

COLUMNS_64 = LAYOUT.vectors * LAYOUT.vector_bytes // 8
"""Columns of a tile of fp64."""

FEW_ROWS = 4
"""Rows of the tile for what is left at the end; one of fewer rows would take as long."""

tile_f32, tile_f32_few = _micro_kernel(F32, ROWS), _micro_kernel(F32, FEW_ROWS)
tile_f64, tile_f64_few = _micro_kernel(F64, ROWS), _micro_kernel(F64, FEW_ROWS)
tile_dot, tile_dot_few = _micro_kernel(DOT, ROWS), _micro_kernel(DOT, FEW_ROWS)
HAS_PAIRS = bool(LAYOUT.pairs)
"""The CPU multiplies pairs of bf16."""

_pairs = PAIRS if HAS_PAIRS else F32  # of a kind that nothing has then
tile_pairs, tile_pairs_few = _micro_kernel(_pairs, ROWS), _micro_kernel(_pairs, FEW_ROWS)

_WIDE = 8
WIDE_32, WIDE_64 = _WIDE * LAYOUT.vector_bytes // 4, _WIDE * LAYOUT.vector_bytes // 8
"""Columns of the tile of a single row, of fp32 and fp64."""

row_f32, row_f64 = _micro_kernel(F32, 1, _WIDE), _micro_kernel(F64, 1, _WIDE)
