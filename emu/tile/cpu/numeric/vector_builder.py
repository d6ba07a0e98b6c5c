"""Elements of the tile IR in registers: LLVM types, constants, and a builder of vector arithmetic.

Form of an element in a register: ``i1`` as i1, integers (signed or not) as iN, f16 as half, bf16 as the
i16 of its bits, fp8 as the i8 of its bits, f32 and f64 as float and double, a pointer as the i64 of its
address. In memory only ``i1`` differs: a byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import binding, ir

from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.types import F16, F32, F64, DType, Kind, Pointer, ScalarType

HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
BIT, BYTE, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))

_FLOATS = {F16: HALF, F32: FLOAT, F64: DOUBLE}
_DTYPES = {type_: dtype for dtype, type_ in _FLOATS.items()}
_SPLAT_SYNTAX = binding.llvm_version_info[0] >= 19  # ``splat (float 1.0)`` in the text of LLVM IR


class Literal(ir.Constant):  # type: ignore[misc]  # llvmlite has no types
    """A constant by its text in LLVM IR."""

    def __init__(self, type_: IrType, text: str) -> None:
        self.type = type_
        self.constant = text

    def _to_string(self) -> str:
        return f"{self.type} {self.constant}"

    def _get_reference(self) -> str:
        return str(self.constant)


def vector(type_: IrType, lanes: int | None) -> IrType:
    """Return the vector type with ``lanes`` lanes, or the type itself where ``lanes`` is ``None``."""
    return type_ if lanes is None else ir.VectorType(type_, lanes)


def lanes_of(type_: IrType) -> int | None:
    """Return the number of lanes of an LLVM type, ``None`` for a scalar."""
    return int(type_.count) if isinstance(type_, ir.VectorType) else None


def scalar_of(type_: IrType) -> IrType:
    """Return the LLVM type of one lane."""
    return type_.element if isinstance(type_, ir.VectorType) else type_


def register_type(element: ScalarType, lanes: int | None = None) -> IrType:
    """Return the LLVM type of a register that holds such elements.

    Args:
        element: Dtype or pointer.
        lanes: Number of lanes; ``None`` for a scalar.
    """
    if isinstance(element, Pointer):
        return vector(I64, lanes)
    return vector(_FLOATS.get(element) or ir.IntType(element.bits), lanes)


def memory_type(element: ScalarType, lanes: int | None = None) -> IrType:
    """Return the LLVM type by which such elements are loaded and stored: a byte for ``i1``."""
    if isinstance(element, DType) and element.kind is Kind.BOOL:
        return vector(BYTE, lanes)
    return register_type(element, lanes)


def from_memory(builder: ir.IRBuilder, element: ScalarType, value: Register) -> Register:
    """Return the register of a value that was loaded as :func:`memory_type`."""
    if isinstance(element, DType) and element.kind is Kind.BOOL:
        return builder.icmp_unsigned("!=", value, number(value.type, 0))
    return value


def to_memory(builder: ir.IRBuilder, element: ScalarType, value: Register) -> Register:
    """Return a register as :func:`memory_type`, to be stored."""
    if isinstance(element, DType) and element.kind is Kind.BOOL:
        return builder.zext(value, vector(BYTE, lanes_of(value.type)))
    return value


def _repeat(scalar: IrType, text: str, lanes: int | None) -> Register:
    if lanes is None:
        return Literal(scalar, text)
    item = f"{scalar} {text}"
    if _SPLAT_SYNTAX:
        return Literal(vector(scalar, lanes), f"splat ({item})")
    return Literal(vector(scalar, lanes), f"<{', '.join([item] * lanes)}>")


def _text(type_: IrType, value: float) -> str:
    if isinstance(type_, ir.IntType):
        bits = int(value) & ((1 << type_.width) - 1)
        return str(bits) if type_.width > 1 else ("false", "true")[bits]
    with np.errstate(over="ignore"):
        rounded = np.asarray(value, np.float64).astype(_DTYPES[type_].numpy)
    # LLVM writes a float as the bits of a double, but a half by its own.
    if type_ == HALF:
        return f"0xH{int(rounded.view(np.uint16)):04X}"
    return f"0x{int(rounded.astype(np.float64).view(np.uint64)):016X}"


def number(type_: IrType, value: float) -> Register:
    """Return the LLVM constant of a number: an integer wraps, a float is rounded.

    Args:
        type_: LLVM type of integers or floats, scalar or vector (then every lane has the value).
        value: The number.
    """
    scalar = scalar_of(type_)
    return _repeat(scalar, _text(scalar, value), lanes_of(type_))


def constant(element: ScalarType, value: float, lanes: int | None = None) -> Register:
    """Return the register whose every lane has the value.

    Args:
        element: Dtype or pointer.
        value: A Python or NumPy scalar. It is rounded to a floating dtype, wraps to an integer one.
        lanes: Number of lanes; ``None`` for a scalar.
    """
    if isinstance(element, DType):
        if element.kind is Kind.BOOL:
            value = bool(value)
        elif element.is_float and element not in _FLOATS:
            bits = np.asarray(value).astype(element.numpy).view(f"u{element.bytes}")
            value = int(bits)
    return number(register_type(element, lanes), value)


def splat(builder: ir.IRBuilder, value: Register, lanes: int | None) -> Register:
    """Return the vector whose every lane is the scalar; the scalar itself where ``lanes`` is ``None``."""
    if lanes is None:
        return value
    if isinstance(value, ir.Constant):
        return _repeat(value.type, value.get_reference(), lanes)
    nothing = Literal(vector(value.type, lanes), "poison")
    first = builder.insert_element(nothing, value, number(I32, 0))
    order = ir.Constant(vector(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, nothing, order)


def iota(element: ScalarType, lanes: int) -> Register:
    """Return the constant vector 0, 1, ... ``lanes - 1`` of an integer dtype."""
    type_ = register_type(element)
    items = ", ".join(f"{type_} {_text(type_, lane)}" for lane in range(lanes))
    return Literal(vector(type_, lanes), f"<{items}>")


def mangle(type_: IrType) -> str:
    """Return the spelling of a type in the name of an intrinsic: ``v32f32``, ``i64``."""
    scalar = scalar_of(type_)
    name = f"i{scalar.width}" if isinstance(scalar, ir.IntType) else _DTYPES[scalar].name
    lanes = lanes_of(type_)
    return name if lanes is None else f"v{lanes}{name}"


def declare(
    builder: ir.IRBuilder, name: str, result: IrType, arguments: Sequence[IrType]
) -> ir.Function:
    """Return the function of that name in the builder's module; declare it if it is missing."""
    module = builder.module
    if name not in module.globals:
        return ir.Function(module, ir.FunctionType(result, list(arguments)), name)
    return module.globals[name]


def intrinsic(
    builder: ir.IRBuilder, name: str, values: Sequence[Register], *, flags: Sequence[str] = ()
) -> Register:
    """Call ``llvm.NAME`` that is overloaded by the type of its first operand, and has that type itself."""
    types = [value.type for value in values]
    function = declare(builder, f"llvm.{name}.{mangle(types[0])}", types[0], types)
    return builder.call(function, values, fastmath=tuple(flags))


class VectorBuilder:
    """Builder of arithmetic on registers of one number of lanes.

    Attributes:
        builder: Where the code goes.
        count: Number of lanes; ``None`` for scalars.
    """

    def __init__(self, builder: ir.IRBuilder, count: int | None) -> None:
        self.builder = builder
        self.count = count

    def type(self, scalar: IrType) -> IrType:
        """Return the register type of such lanes."""
        return vector(scalar, self.count)

    def f32(self, value: float) -> Register:
        """Return a constant of float."""
        return number(self.type(FLOAT), value)

    def f64(self, value: float) -> Register:
        """Return a constant of double."""
        return number(self.type(DOUBLE), value)

    def i32(self, value: int) -> Register:
        """Return a constant of i32."""
        return number(self.type(I32), value)

    def i64(self, value: int) -> Register:
        """Return a constant of i64."""
        return number(self.type(I64), value)

    def like(self, register: Register, value: float) -> Register:
        """Return a constant of the type of another register."""
        return number(register.type, value)

    def cast(self, value: Register, scalar: IrType) -> Register:
        """Return the same bits as another type."""
        return self.builder.bitcast(value, self.type(scalar))

    def fma(self, a: Register, b: Register, c: Register) -> Register:
        """Return a * b + c in one rounding."""
        return intrinsic(self.builder, "fma", (a, b, c))

    def abs(self, value: Register) -> Register:
        """Return a float without its sign."""
        return intrinsic(self.builder, "fabs", (value,))

    def copysign(self, magnitude: Register, sign: Register) -> Register:
        """Return the magnitude of one float with the sign of another."""
        return intrinsic(self.builder, "copysign", (magnitude, sign))

    def polynomial(self, x: Register, coefficients: Sequence[float]) -> Register:
        """Return the value of a polynomial, by Horner's rule.

        Args:
            x: Float or double.
            coefficients: From the constant term up.
        """
        value = self.like(x, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.like(x, coefficient))
        return value

    def clamp(self, x: Register, low: float, high: float) -> Register:
        """Return a float within bounds; NaN stays NaN."""
        build = self.builder
        bound = self.like(x, high)
        x = build.select(build.fcmp_ordered(">", x, bound), bound, x)
        bound = self.like(x, low)
        return build.select(build.fcmp_ordered("<", x, bound), bound, x)


class Callee:
    """A function pointer in the form that llvmlite can call."""

    def __init__(self, pointer: IrPointer, kind: ir.FunctionType) -> None:
        self.type = pointer.type
        self.function_type = kind
        self._pointer = pointer

    def get_reference(self) -> str:
        """Return the pointer's name."""
        return str(self._pointer.get_reference())
