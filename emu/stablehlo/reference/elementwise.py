"""Operations that work element by element.

Functions of the transcendental kind are computed in double precision and rounded once, so that the
results of 16 and 32 bits are the correctly rounded ones but for the rarest cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.stablehlo.attributes import ComparisonDirection, ComparisonType
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.dtypes import (
    SMALL_INTEGERS,
    bit_width,
    is_complex,
    is_float,
    is_integer,
    is_signed,
    result_dtype,
    wrap,
)
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.quantization import to_dequantized, to_quantized
from emu.stablehlo.reference.scope import ELEMENTWISE, Scope, define_elementwise, handles
from emu.stablehlo.reference.values import Array


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in double precision, and round once."""

    def computed(*args: Array) -> Array:
        dtype = args[0].dtype
        wide = np.dtype(np.complex128 if is_complex(dtype) else np.float64)
        return function(*(a.astype(wide) for a in args)).astype(dtype)

    return computed


def _in_bytes(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute on integers of 2 and 4 bits as on bytes, and keep the low bits."""

    def computed(*args: Array) -> Array:
        dtype = args[0].dtype
        if dtype not in SMALL_INTEGERS:
            return function(*args)
        return wrap(function(*(a.astype(SMALL_INTEGERS[dtype]) for a in args)), dtype)

    return computed


# Arithmetic


def _subtract(x: Array, y: Array) -> Array:
    return np.bitwise_xor(x, y) if x.dtype.kind == "b" else np.subtract(x, y)


def _divide(x: Array, y: Array) -> Array:
    if not is_integer(x.dtype):
        return np.divide(x, y)
    # Division by zero gives all ones, and the smallest number divided by -1 itself, as in XLA.
    zero = y == 0
    safe = np.where(zero, np.ones_like(y), y)
    if not is_signed(x.dtype):
        return np.where(zero, ~np.zeros_like(x), x // safe)
    minus = safe == -1
    other = np.where(minus, np.ones_like(y), safe)
    quotient = x // other
    # NumPy rounds down, StableHLO toward zero.
    inexact = (quotient * other != x) & ((x < 0) != (other < 0))
    quotient = np.where(minus, np.negative(x), quotient + inexact.astype(x.dtype))
    return np.where(zero, np.full_like(x, -1), quotient)


def _remainder(x: Array, y: Array) -> Array:
    if is_complex(x.dtype):
        raise EvaluationError("the remainder of complex numbers is not specified")
    if not is_integer(x.dtype):
        return np.fmod(x, y)
    trivial = (y == 0) | (y == -1) if is_signed(x.dtype) else y == 0
    safe = np.where(trivial, np.ones_like(y), y)
    return np.where(y == 0, x, np.where(trivial, np.zeros_like(x), np.fmod(x, safe)))


def _power(x: Array, y: Array) -> Array:
    if not is_integer(x.dtype):
        return _wide(np.power)(x, y)
    x, y = np.broadcast_arrays(x, y)
    base, rest, result = x.copy(), y.copy(), np.ones_like(x)
    negative = rest < 0 if is_signed(x.dtype) else np.zeros(x.shape, np.bool_)
    rest = np.where(negative, np.zeros_like(rest), rest)
    while rest.any():
        result = np.where(rest & 1 != 0, result * base, result)
        base, rest = base * base, rest >> 1
    odd = np.where(y & 1 != 0, x, np.ones_like(x))
    inverse = np.where(x == 1, x, np.where(x == -1, odd, np.zeros_like(x)))
    return np.where(negative, inverse, result).astype(x.dtype)


def _is_greater(x: Array, y: Array) -> Array:
    """Compare complex numbers by their real parts first."""
    left, right = np.real(x), np.real(y)
    return np.asarray((left > right) | ((left == right) & (np.imag(x) > np.imag(y))))


def _maximum(x: Array, y: Array) -> Array:
    if is_complex(x.dtype):
        nan = np.isnan(x)
        return np.where(nan | (_is_greater(x, y) & ~np.isnan(y)), x, y)
    return _signed_zeros(np.maximum(x, y), x, y, smallest=False)


def _minimum(x: Array, y: Array) -> Array:
    if is_complex(x.dtype):
        nan = np.isnan(x)
        return np.where(nan | (_is_greater(y, x) & ~np.isnan(y)), x, y)
    return _signed_zeros(np.minimum(x, y), x, y, smallest=True)


def _signed_zeros(result: Array, x: Array, y: Array, *, smallest: bool) -> Array:
    """Let -0 be less than +0: IEEE's minimum and maximum."""
    if not is_float(x.dtype) or x.dtype.name == "float8_e8m0fnu":
        return result
    x, y = np.broadcast_arrays(x, y)
    both = (x == 0) & (y == 0)
    if not both.any():
        return result
    first = np.signbit(x) == smallest
    return np.where(both, np.where(first, x, y), result)


def _shift(kind: str) -> Callable[[Array, Array], Array]:
    """Return a shift of integers of any width; a count outside of it shifts all bits out."""

    def shifted(x: Array, y: Array) -> Array:
        width = bit_width(x.dtype)
        unused = np.uint64(64 - width)
        counts = y.astype(np.int64)
        outside = (counts < 0) | (counts >= width)
        counts = np.where(outside, 0, counts).astype(np.uint64)
        bits = x.astype(np.int64).view(np.uint64) << unused
        if kind == "left":
            found = np.where(outside, 0, bits << counts) >> unused
        elif kind == "logical":
            found = np.where(outside, 0, bits >> unused >> counts)
        else:
            # The highest bit is the sign, of unsigned integers too.
            signed = bits.view(np.int64) >> unused.astype(np.int64)
            counts = np.where(outside, np.uint64(width - 1), counts)
            found = (signed >> counts.astype(np.int64)).view(np.uint64)
        return wrap(np.asarray(found, np.uint64), x.dtype)

    return shifted


def _abs(x: Array) -> Array:
    if is_complex(x.dtype):
        parts = np.real(x), np.imag(x)
        return np.hypot(*(p.astype(np.float64) for p in parts)).astype(parts[0].dtype)
    return np.abs(x)


def _sign(x: Array) -> Array:
    if is_complex(x.dtype):
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size)).astype(x.dtype)
    if is_integer(x.dtype):
        return np.sign(x)
    return np.where(np.isnan(x) | (x == 0), x, np.copysign(np.ones_like(x), x))


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype.kind == "b" else np.invert(x)


def _popcnt(x: Array) -> Array:
    width = bit_width(x.dtype)
    bits = x.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    return np.asarray(np.bitwise_count(bits)).astype(x.dtype)


def _count_leading_zeros(x: Array) -> Array:
    width = bit_width(x.dtype)
    bits = x.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    count = np.full(x.shape, width, np.int64)
    while bits.any():
        count, bits = count - (bits != 0), bits >> np.uint64(1)
    return count.astype(x.dtype)


def _select(predicate: Array, yes: Array, no: Array) -> Array:
    return np.where(predicate, yes, no)


# Functions of floats


def _round_away(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + _half_below(wide)), wide)).astype(x.dtype)


def _half_below(x: Array) -> Array:
    """Return 0.5, but the number before it where adding 0.5 would round up by itself."""
    size = np.abs(x)
    return np.where(size < 2.0**52, np.where(size < 0.5, np.nextafter(0.5, 0), 0.5), 0.0)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _cbrt(x: Array) -> Array:
    return np.power(x, 1 / 3) if is_complex(x.dtype) else np.cbrt(x)


def _atan2(y: Array, x: Array) -> Array:
    if not is_complex(x.dtype):
        return np.arctan2(y, x)
    return np.asarray(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))


def _complex(re: Array, im: Array) -> Array:
    """Join parts without arithmetic, which would make NaN of an infinite part."""
    re, im = np.broadcast_arrays(re, im)
    found = np.empty(re.shape, np.complex64 if re.dtype == np.float32 else np.complex128)
    found.real, found.imag = re, im
    return found


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "atan2": _atan2,
    "cbrt": _cbrt,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": _logistic,
    "rsqrt": _rsqrt,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
_PLAIN: dict[str, Callable[..., Array]] = {
    "abs": _in_bytes(_abs),
    "add": _in_bytes(np.add),
    "and": _in_bytes(np.bitwise_and),
    "ceil": np.ceil,
    "clamp": _in_bytes(lambda low, x, high: _minimum(_maximum(x, low), high)),
    "complex": _complex,
    "count_leading_zeros": _count_leading_zeros,
    "divide": _in_bytes(_divide),
    "floor": np.floor,
    "imag": lambda x: x.imag if is_complex(x.dtype) else np.zeros_like(x),
    "is_finite": np.isfinite,
    "maximum": _in_bytes(_maximum),
    "minimum": _in_bytes(_minimum),
    "multiply": _in_bytes(np.multiply),
    "negate": _in_bytes(np.negative),
    "not": _in_bytes(_not),
    "or": _in_bytes(np.bitwise_or),
    "popcnt": _popcnt,
    "power": _in_bytes(_power),
    "real": lambda x: x.real if is_complex(x.dtype) else x,
    "remainder": _in_bytes(_remainder),
    "round_nearest_afz": _round_away,
    "round_nearest_even": np.rint,
    "select": _select,
    "shift_left": _shift("left"),
    "shift_right_arithmetic": _shift("arithmetic"),
    "shift_right_logical": _shift("logical"),
    "sign": _in_bytes(_sign),
    "subtract": _in_bytes(_subtract),
    "xor": _in_bytes(np.bitwise_xor),
}


for _name, _function in _PLAIN.items():
    define_elementwise(f"stablehlo.{_name}", _function)
for _name, _function in _FUNCTIONS.items():
    define_elementwise(f"stablehlo.{_name}", _wide(_function))


@handles("stablehlo.optimization_barrier")
def _barrier(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return args


# Comparison


def total_order(x: Array) -> Array:
    """Return integers that are ordered as floats are in IEEE's total order: -NaN first, -0 before 0."""
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    largest = np.iinfo(bits.dtype).max
    return np.where(bits < 0, bits ^ largest, bits)


_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


@handles("stablehlo.compare")
def _compare(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    direction, kind = op.properties["comparison_direction"], op.properties.get("compare_type")
    assert isinstance(direction, ComparisonDirection)
    x, y = args
    if isinstance(kind, ComparisonType) and kind.value == "TOTALORDER" and is_float(x.dtype):
        x, y = total_order(x), total_order(y)
    return (np.asarray(_COMPARISONS[direction.value](x, y)).astype(np.bool_),)


# Conversion


def convert(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """Convert numbers as StableHLO's ``convert`` does on XLA.

    Floats become integers by truncation; NaN becomes 0, what is too large the nearest integer.
    """
    if x.dtype == dtype:
        return x
    if is_complex(x.dtype) and not is_complex(dtype):
        x = np.real(x)
    if dtype.kind == "b":
        return np.asarray(x != np.zeros((), x.dtype))
    if not is_integer(dtype):
        return x.astype(dtype)
    if x.dtype.kind == "b":
        return wrap(x.astype(np.uint8), dtype)
    if is_integer(x.dtype):
        return wrap(x.astype(np.int8) if x.dtype in SMALL_INTEGERS else x, dtype)
    wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    width, signed = bit_width(dtype), is_signed(dtype)
    low = -(2 ** (width - 1)) if signed else 0
    high = 2 ** (width - 1) - 1 if signed else 2**width - 1
    # The largest 64-bit integer is no double: what reaches it is set, not converted.
    inside = np.where((wide >= float(high)) | (wide <= float(low)), 0.0, wide)
    found = inside.astype(np.int64 if signed else np.uint64)
    found = np.where(wide >= float(high), high, np.where(wide <= float(low), low, found))
    return wrap(found.astype(np.int64 if signed else np.uint64), dtype)


@handles("stablehlo.convert")
def _convert(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (convert(args[0], result_dtype(op.result.type)),)


@handles("stablehlo.bitcast_convert")
def _bitcast(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    (x,) = args
    type_ = op.result.type
    assert isinstance(type_, TensorType)
    dtype = result_dtype(type_)
    if bits_per_element(x.dtype) % 8 or bits_per_element(dtype) % 8:
        return (_from_bits(_to_bits(x), dtype).reshape(type_.static_shape),)
    # A wider element comes of, or becomes, one more dimension.
    return (np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(type_.static_shape),)


@handles("stablehlo.uniform_quantize")
def _uniform_quantize(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (to_quantized(args[0], op.operands[0].type, op.result.type),)


@handles("stablehlo.uniform_dequantize")
def _uniform_dequantize(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (to_dequantized(args[0], op.operands[0].type),)


def bits_per_element(dtype: np.dtype[np.generic]) -> int:
    """Return the number of bits that an element has in StableHLO, which may be less than a byte."""
    if dtype.kind == "b":
        return 1
    if is_integer(dtype):
        return bit_width(dtype)
    return {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(
        dtype.name, 8 * dtype.itemsize
    )


def _to_bits(x: Array) -> Array:
    """Return the bits of all elements in one row, the lowest of each first."""
    size = x.dtype.itemsize
    rows = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, size)
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    return bits[:, : bits_per_element(x.dtype)].reshape(-1)


def _from_bits(bits: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return the elements that a row of bits encodes."""
    rows = bits.reshape(-1, bits_per_element(dtype))
    full = np.zeros((len(rows), 8 * dtype.itemsize), np.uint8)
    full[:, : rows.shape[1]] = rows
    if is_integer(dtype) and is_signed(dtype):
        full[:, rows.shape[1] :] = rows[:, -1:]
    return np.packbits(full, axis=1, bitorder="little").reshape(-1).view(dtype)


@handles("stablehlo.reduce_precision")
def _reduce_precision(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (reduce_precision(args[0], integer(op, "exponent_bits"), integer(op, "mantissa_bits")),)


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round numbers to those that a smaller format has.

    What is too large becomes infinite and what is too small zero: the format has no subnormals.
    """
    wide = x.astype(np.float64)
    mantissa, exponent = np.frexp(wide)
    scaled = np.rint(np.ldexp(mantissa, mantissa_bits + 1))
    rounded = np.ldexp(scaled, exponent - mantissa_bits - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent_bits < 11:
        large = np.abs(rounded) >= 2.0 ** (bias + 1)
        rounded = np.where(large, np.copysign(np.inf, wide), rounded)
        small = np.abs(rounded) < 2.0 ** (1 - bias)
        rounded = np.where(small, np.copysign(0.0, wide), rounded)
    # A format without a mantissa has infinity and no NaN.
    other = wide if mantissa_bits else np.copysign(np.inf, wide)
    return np.where(np.isfinite(wide), rounded, other).astype(x.dtype)


ELEMENTWISE |= {"stablehlo.compare", "stablehlo.convert", "stablehlo.reduce_precision"}
ELEMENTWISE |= {"stablehlo.optimization_barrier"}
