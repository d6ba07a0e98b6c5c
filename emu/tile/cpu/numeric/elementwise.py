"""Every element-wise operation of the tile IR as LLVM IR on registers: scalars, or vectors of any lanes.

What each means is said by ``emu.tile.reference``. Arithmetic of floats narrower than f32 is that of f32,
rounded after each operation. Nothing is contracted or reassociated unless it is asked for; no flag lets
LLVM assume that there are no NaN or infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.numeric import conversions, mathematics
from emu.tile.cpu.numeric.conversions import NEAREST, narrow, narrow_exact, widen
from emu.tile.cpu.numeric.mathematics import library
from emu.tile.cpu.numeric.mathematics.remainder import remainder
from emu.tile.cpu.numeric.mathematics.shared import by_lane, outlined, unlikely
from emu.tile.cpu.numeric.vector_builder import (
    BIT,
    DOUBLE,
    FLOAT,
    I64,
    VectorBuilder,
    declare,
    intrinsic,
    lanes_of,
    mangle,
    number,
    vector,
)
from emu.tile.llvm import Register
from emu.tile.objects import Attribute
from emu.tile.ops import BINARY, BITWISE, COMPARISONS, FLOAT_BINARY, FLOAT_UNARY, Code
from emu.tile.types import BF16, F16, F64, U64, DType, Kind, Pointer, ScalarType

_SIGNS = {
    Code.EQ: "==",
    Code.NE: "!=",
    Code.LT: "<",
    Code.LE: "<=",
    Code.GT: ">",
    Code.GE: ">=",
}
_EXACT = {Code.FLOOR: "floor", Code.CEIL: "ceil", Code.TRUNC: "trunc", Code.RINT: "rint"}


def emit(
    builder: ir.IRBuilder,
    code: Code,
    attributes: Mapping[str, Attribute],
    operand_elements: Sequence[ScalarType],
    result_element: ScalarType,
    values: Sequence[Register],
    *,
    contract: bool = False,
) -> Register:
    """Emit one element-wise operation.

    The builder stays in its block: what needs a branch or a loop lies in a function of its own, which is
    added to the module once.

    Args:
        builder: Where the code goes.
        code: Any of ``ops.ELEMENTWISE``.
        attributes: The operation's.
        operand_elements: Element of each operand.
        result_element: Element of the result.
        values: Registers of the operands (``registers`` says which type each element has); all scalars,
            or vectors of one number of lanes. The condition of ``select`` may be a scalar beside vectors.
        contract: Whether LLVM may fuse an f32 or f64 ``add``, ``sub`` or ``mul`` with another operation
            that may be fused.

    Returns:
        The register of the result.

    Raises:
        ValueError: The code is not element-wise, or not defined for the dtype.
    """
    element = operand_elements[0]
    if code is Code.SELECT:
        return builder.select(*values)
    if code is Code.CAST:
        rounding = attributes.get("rounding") or NEAREST
        return conversions.convert(builder, values[0], element, result_element, rounding)
    if code is Code.BITCAST:
        return conversions.reinterpret(builder, values[0], result_element)
    if code is Code.PTR_ADD:
        return _advance(builder, element, operand_elements[1], values)
    lanes = VectorBuilder(builder, lanes_of(values[0].type))
    dtype = U64 if isinstance(element, Pointer) else element
    if code in COMPARISONS:
        return _compare(lanes, code, dtype, values)
    emitter = _emitter(code, dtype)
    if emitter is None:
        raise ValueError(f"code must be an element-wise operation of {dtype}, but got {code.name}")
    propagate_nan, flags = bool(attributes.get("propagate_nan")), ("contract",) * contract
    return emitter(_Task(lanes, code, dtype, values, propagate_nan, flags))


class _Task(NamedTuple):
    """An operation to emit, whose operands have one dtype.

    Attributes:
        lanes: Where the code goes, and how many lanes.
        code: From the arithmetic part of ``ops.ELEMENTWISE``.
        dtype: Dtype of the operands; of pointers u64.
        values: Registers of the operands.
        propagate_nan: For MIN and MAX: NaN wins over numbers.
        flags: LLVM's fast-math flags for what may be contracted.
    """

    lanes: VectorBuilder
    code: Code
    dtype: DType
    values: Sequence[Register]
    propagate_nan: bool
    flags: tuple[str, ...]


_Emitter = Callable[[_Task], Register]


def _emitter(code: Code, dtype: DType) -> _Emitter | None:
    if code in (Code.NEG, Code.NOT, Code.ABS):
        return _sign
    if code not in BINARY and code not in FLOAT_UNARY and code is not Code.FMA:
        return None
    if dtype.is_float:
        return None if code in BITWISE else _float
    if code in FLOAT_UNARY or code in FLOAT_BINARY or code is Code.FMA:
        return None
    return _boolean if dtype.kind is Kind.BOOL else _integer


def _advance(
    builder: ir.IRBuilder, pointer: ScalarType, index: ScalarType, values: Sequence[Register]
) -> Register:
    """Address + index * size of what the pointer points to."""
    if not isinstance(pointer, Pointer) or not isinstance(index, DType):
        raise TypeError(f"ptr_add must have a pointer and an integer, but got {pointer}, {index}")
    address, offset = values
    wide = vector(I64, lanes_of(offset.type))
    if index.bits < 64:
        offset = builder.sext(offset, wide) if index.is_signed else builder.zext(offset, wide)
    return builder.add(address, builder.mul(offset, number(wide, pointer.element.bytes)))


def _sign(task: _Task) -> Register:
    """``neg``, ``not``, ``abs``: of floats by their sign bit alone."""
    lanes, code, dtype, (value,), *_ = task
    build = lanes.builder
    if code is Code.NOT:
        if dtype.is_float:
            raise ValueError(f"code must be an element-wise operation of {dtype}, but got NOT")
        return build.xor(value, lanes.like(value, -1))
    if not dtype.is_float:
        if dtype.kind is Kind.BOOL:
            return value
        if code is Code.NEG:
            return build.sub(lanes.like(value, 0), value)
        if not dtype.is_signed:
            return value
        return build.call(_abs_function(lanes, value), [value, number(BIT, 0)])
    if dtype.bits >= 32:
        return build.fneg(value) if code is Code.NEG else lanes.abs(value)
    bits = lanes.cast(value, ir.IntType(dtype.bits))
    sign = 1 << (dtype.bits - 1)
    if code is Code.NEG:
        bits = build.xor(bits, lanes.like(bits, sign))
    else:
        bits = build.and_(bits, lanes.like(bits, sign - 1))
    return build.bitcast(bits, value.type)


def _abs_function(lanes: VectorBuilder, value: Register) -> ir.Function:
    return declare(lanes.builder, f"llvm.abs.{mangle(value.type)}", value.type, (value.type, BIT))


def _compare(
    lanes: VectorBuilder, code: Code, dtype: DType, values: Sequence[Register]
) -> Register:
    build, sign = lanes.builder, _SIGNS[code]
    if not dtype.is_float:
        compare = build.icmp_signed if dtype.is_signed else build.icmp_unsigned
        return compare(sign, *values)
    if dtype.is_narrow and dtype != F16:
        values = [widen(lanes, value, dtype) for value in values]
    if code is Code.NE:
        return build.fcmp_unordered(sign, *values)
    return build.fcmp_ordered(sign, *values)


def _boolean(task: _Task) -> Register:
    """Integers of one bit."""
    lanes, code, _, (a, b), *_ = task
    build = lanes.builder
    if code in (Code.ADD, Code.SUB, Code.XOR):
        return build.xor(a, b)
    if code in (Code.MUL, Code.DIV, Code.MIN, Code.AND):
        return build.and_(a, b)
    if code in (Code.MAX, Code.OR):
        return build.or_(a, b)
    if code is Code.MULHI:
        return lanes.like(a, 0)
    return build.and_(
        a, build.xor(b, lanes.like(b, 1))
    )  # the rest of a division by 1 or by 0, and both shifts


def _integer(task: _Task) -> Register:
    lanes, code, dtype, (a, b), *_ = task
    build = lanes.builder
    if code in (Code.DIV, Code.REM):
        return _divide(lanes, code, dtype, a, b)
    if code in (Code.MIN, Code.MAX):
        name = ("s" if dtype.is_signed else "u") + code.name.lower()
        return intrinsic(build, name, (a, b))
    if code in (Code.SHL, Code.SHR):
        return _shift(lanes, code, dtype, a, b)
    if code is Code.MULHI:
        wide = lanes.type(ir.IntType(2 * dtype.bits))
        extend = build.sext if dtype.is_signed else build.zext
        product = build.mul(extend(a, wide), extend(b, wide))
        return build.trunc(build.lshr(product, number(wide, dtype.bits)), a.type)
    plain = {
        Code.ADD: build.add,
        Code.SUB: build.sub,
        Code.MUL: build.mul,
        Code.AND: build.and_,
        Code.OR: build.or_,
        Code.XOR: build.xor,
    }
    return plain[code](a, b)


def _shift(lanes: VectorBuilder, code: Code, dtype: DType, a: Register, b: Register) -> Register:
    build = lanes.builder
    if code is Code.SHR and dtype.is_signed:
        return build.ashr(a, intrinsic(build, "umin", (b, lanes.like(b, dtype.bits - 1))))
    shifted = build.shl(a, b) if code is Code.SHL else build.lshr(a, b)
    return build.select(
        build.icmp_unsigned("<", b, lanes.like(b, dtype.bits)), shifted, lanes.like(a, 0)
    )


def _divide(lanes: VectorBuilder, code: Code, dtype: DType, a: Register, b: Register) -> Register:
    """Division toward zero that never traps: x / 0 is 0, x % 0 is x, the smallest / -1 wraps."""
    build = lanes.builder
    one, zero = lanes.like(a, 1), lanes.like(a, 0)
    by_zero = build.icmp_unsigned("==", b, zero)
    unsafe = by_zero
    if dtype.is_signed:
        by_minus_one = build.icmp_unsigned("==", b, lanes.like(b, -1))
        unsafe = build.or_(by_zero, by_minus_one)
    divisor = build.select(unsafe, one, b)
    quotient = _quotient(lanes, dtype, a, divisor, known=isinstance(b, ir.Constant))
    if code is Code.REM:
        rest = build.sub(a, build.mul(quotient, divisor))
        return build.select(by_zero, a, rest)
    if dtype.is_signed:
        quotient = build.select(by_minus_one, build.sub(zero, a), quotient)
    return build.select(by_zero, zero, quotient)


def _quotient(
    lanes: VectorBuilder, dtype: DType, a: Register, b: Register, *, known: bool
) -> Register:
    """Emit the quotient of integers whose divisor is known to be neither 0 nor -1.

    CPUs divide no vectors of integers: a float with at least twice the bits does, and cannot round up to
    the next integer. LLVM multiplies where it sees the divisor, so one that is known is left to it.
    """
    build = lanes.builder
    name = "sdiv" if dtype.is_signed else "udiv"
    if lanes.count is None or known:
        return getattr(build, name)(a, b)
    if dtype.bits == 64:

        def divide(inner: VectorBuilder, a: Register, b: Register) -> Register:
            return _quotient_64(inner, dtype, name, a, b)

        return outlined(lanes, name, divide, (a, b))
    return _by_float(lanes, dtype, a, b)


def _by_float(lanes: VectorBuilder, dtype: DType, a: Register, b: Register) -> Register:
    build = lanes.builder
    wide = lanes.type(FLOAT if dtype.bits < 32 else DOUBLE)
    to_float = build.sitofp if dtype.is_signed else build.uitofp
    to_integer = build.fptosi if dtype.is_signed else build.fptoui
    return to_integer(build.fdiv(to_float(a, wide), to_float(b, wide)), a.type)


def _quotient_64(
    lanes: VectorBuilder, dtype: DType, name: str, a: Register, b: Register
) -> Register:
    """Divide as f64 if no operand of any lane has more than 52 bits, else lane by lane."""
    build = lanes.builder
    offset = 1 << 52 if dtype.is_signed else 0
    limit = lanes.i64(offset + (1 << 52))
    large = [
        build.icmp_unsigned(">", build.add(value, lanes.i64(offset)), limit) for value in (a, b)
    ]

    def one_by_one() -> Register:
        return by_lane(lanes, name, lambda inner, *pair: getattr(inner, name)(*pair), (a, b))

    # what of the lanes that are too large is not used, but must not be poison either
    zero, one = lanes.i64(0), lanes.i64(1)
    quotient = _by_float(
        lanes, dtype, build.select(large[0], zero, a), build.select(large[1], one, b)
    )
    return unlikely(lanes, build.or_(*large), quotient, one_by_one)


def _float(task: _Task) -> Register:
    lanes, code, dtype, values, propagate_nan, _ = task
    if not dtype.is_narrow:
        return _wide_float(task)
    wide = [widen(lanes, value, dtype) for value in values]
    if code in (Code.MIN, Code.MAX):
        return _narrow_extremum(lanes, code, values, wide, propagate_nan)
    if code in _EXACT and dtype != BF16:
        return narrow(lanes, _integral(lanes, code, wide[0]), dtype)
    result = _wide_float(task._replace(values=wide, flags=()))
    if code in _EXACT:
        return narrow_exact(lanes, result, dtype)
    return narrow(lanes, result, dtype)


def _integral(lanes: VectorBuilder, code: Code, x: Register) -> Register:
    """``floor``, ``ceil``, ``trunc`` or ``rint`` of f32 below 2**22, or infinite.

    The intrinsics will not do between halves: LLVM would make them intrinsics of halves, which most CPUs
    do not have, and then go through every lane on its own.
    """
    build = lanes.builder
    start = lanes.abs(x) if code is Code.TRUNC else x
    shift = lanes.f32(1.5 * 2.0**23)
    value = build.fsub(build.fadd(start, shift), shift)
    one, zero = lanes.f32(1.0), lanes.f32(0.0)
    if code is Code.CEIL:
        less = build.fcmp_ordered("<", value, start)
        value = build.fadd(value, build.select(less, one, zero))
    elif code is not Code.RINT:
        more = build.fcmp_ordered(">", value, start)
        value = build.fsub(value, build.select(more, one, zero))
    return lanes.copysign(value, x)


def _narrow_extremum(
    lanes: VectorBuilder,
    code: Code,
    values: Sequence[Register],
    wide: Sequence[Register],
    propagate: bool,
) -> Register:
    """One of the two as it is: the first where it is NaN and that counts, or where the second is not to."""
    build = lanes.builder
    nan = wide[0] if propagate else wide[1]
    first = build.fcmp_ordered("<" if code is Code.MIN else ">", *wide)
    first = build.or_(first, build.fcmp_unordered("uno", nan, nan))
    return build.select(first, *values)


def _wide_float(task: _Task) -> Register:
    """On f32 or f64."""
    lanes, code, dtype, values, propagate_nan, flags = task
    build = lanes.builder
    if code is Code.FMA:
        return intrinsic(build, "fma", values)
    if code in _EXACT:
        return intrinsic(build, _EXACT[code], values)
    if code is Code.SQRT:
        return intrinsic(build, "sqrt", values)
    if code in (Code.MIN, Code.MAX):
        name = code.name.lower() + ("imum" if propagate_nan else "num")
        return intrinsic(build, name, values, flags=("nsz",))
    if code in FLOAT_UNARY or code in FLOAT_BINARY:
        return mathematics.emit(lanes, code, values, double=dtype == F64)
    if code is Code.REM:
        return library.fmod(lanes, *values) if dtype == F64 else remainder(lanes, *values)
    plain = {
        Code.ADD: build.fadd,
        Code.SUB: build.fsub,
        Code.MUL: build.fmul,
        Code.DIV: build.fdiv,
    }
    contracted = flags if code in (Code.ADD, Code.SUB, Code.MUL) else ()
    return plain[code](*values, flags=contracted)
