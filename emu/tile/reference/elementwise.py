"""Definition of the element-wise operations.

Each function takes the operation and one array per operand and returns the result's array; shapes may
be broadcast, so that the body of a reduction can be evaluated for many elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from emu.tile.ir import Operation
from emu.tile.ops import Code
from emu.tile.reference.rounding import (
    Array,
    bits_of,
    computing,
    fma,
    to_float,
    to_integer,
)
from emu.tile.types import F64, I1, DType, Pointer, ScalarType, element_of

Pure: TypeAlias = Callable[..., Array]


def numpy_dtype(type_: ScalarType) -> np.dtype[np.generic]:
    """Return NumPy's dtype of values of a scalar type; pointers are u64."""
    return np.dtype(np.uint64) if isinstance(type_, Pointer) else type_.numpy


def _element(operation: Operation) -> ScalarType:
    return element_of(operation.results[0].type)


def _dtype(operation: Operation) -> DType:
    return operation.operands[0].dtype


def _numeric(dtype: DType, x: Array) -> Array:
    """Return the operand in the dtype of the computation: i1 as u8, narrow floats as f32."""
    return np.asarray(x.astype(np.uint8)) if dtype == I1 else computing(x)


def _finish(dtype: DType, x: Array) -> Array:
    """Round or wrap a result to its dtype."""
    x = np.asarray(x)
    if dtype == I1:
        return np.asarray(x & 1 != 0)
    return to_float(x, dtype) if dtype.is_narrow else np.asarray(x.astype(dtype.numpy))


# ---- one operand


def _unary(function: Callable[[Array], Array]) -> Pure:
    def apply(operation: Operation, x: Array) -> Array:
        dtype = _dtype(operation)
        return _finish(dtype, function(_numeric(dtype, x)))

    return apply


def _float_unary(function: Callable[[Array], Array]) -> Pure:
    """Compute f32 and narrower in f64, and round to f32 first: narrower dtypes go through f32."""

    def apply(operation: Operation, x: Array) -> Array:
        dtype = _dtype(operation)
        y = np.asarray(function(x.astype(np.float64)))
        return y if dtype == F64 else _finish(dtype, y.astype(np.float32))

    return apply


def _absolute(x: Array) -> Array:
    return x if x.dtype.kind == "u" else np.asarray(np.abs(x))


def _negative(x: Array) -> Array:
    return np.asarray(-x) if x.dtype.kind == "f" else np.asarray(x.dtype.type(0) - x)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.flat]).reshape(x.shape)


# ---- two operands


def _binary(function: Callable[[Array, Array], Array]) -> Pure:
    def apply(operation: Operation, a: Array, b: Array) -> Array:
        dtype = _dtype(operation)
        return _finish(dtype, function(_numeric(dtype, a), _numeric(dtype, b)))

    return apply


def _float_binary(function: Callable[[Array, Array], Array]) -> Pure:
    def apply(operation: Operation, a: Array, b: Array) -> Array:
        dtype = _dtype(operation)
        y = np.asarray(function(a.astype(np.float64), b.astype(np.float64)))
        return y if dtype == F64 else _finish(dtype, y.astype(np.float32))

    return apply


def _divide(a: Array, b: Array) -> Array:
    """Divide; integers towards zero: 0 where the divisor is 0; the smallest by -1 wraps."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    zero = a.dtype.type(0)
    minus = (b == -1) if a.dtype.kind == "i" else np.zeros(np.shape(b), np.bool_)
    safe = np.where((b == 0) | minus, a.dtype.type(1), b)
    quotient = (a - np.fmod(a, safe)) // safe
    return np.where(b == 0, zero, np.where(minus, zero - a, quotient))


def _remainder(a: Array, b: Array) -> Array:
    """Return the remainder, with the dividend's sign; integers: the dividend where the divisor is 0."""
    if a.dtype.kind == "f":
        return np.asarray(np.fmod(a, b))
    minus = (b == -1) if a.dtype.kind == "i" else np.zeros(np.shape(b), np.bool_)
    one = a.dtype.type(1)
    safe = np.where((b == 0) | minus, one, b)
    return np.where(b == 0, a, np.fmod(a, safe))


def _extremum(
    number: Callable[[Array, Array], Array], nan: Callable[[Array, Array], Array]
) -> Pure:
    def apply(operation: Operation, a: Array, b: Array) -> Array:
        dtype = _dtype(operation)
        function = nan if operation.attributes.get("propagate_nan", False) else number
        return _finish(dtype, function(_numeric(dtype, a), _numeric(dtype, b)))

    return apply


def _bitwise(function: Callable[[Array, Array], Array]) -> Pure:
    def apply(operation: Operation, a: Array, b: Array) -> Array:
        return np.asarray(function(a, b))

    return apply


def _shift_left(operation: Operation, a: Array, b: Array) -> Array:
    dtype = _dtype(operation)
    if dtype == I1:
        return np.asarray(a & ~b)
    count = bits_of(np.asarray(b))
    fits = count < dtype.bits
    shifted = bits_of(np.asarray(a)) << np.where(fits, count, 0).astype(count.dtype)
    return np.where(fits, shifted, 0).astype(count.dtype).view(dtype.numpy)


def _shift_right(operation: Operation, a: Array, b: Array) -> Array:
    """Shift right; a count of the width or more (or a negative one) leaves 0, of negative numbers -1."""
    dtype = _dtype(operation)
    if dtype == I1:
        return np.asarray(a & ~b)
    count = bits_of(np.asarray(b))
    fits = count < dtype.bits
    count = np.where(fits, count, dtype.bits - 1).astype(dtype.numpy)
    shifted = np.asarray(a) >> count
    return shifted if dtype.is_signed else np.where(fits, shifted, 0).astype(dtype.numpy)


def _multiply_high(operation: Operation, a: Array, b: Array) -> Array:
    dtype = _dtype(operation)
    if dtype == I1:
        return np.asarray(a & ~a & b)
    product = np.asarray(a.astype(object) * b.astype(object))
    upper = np.asarray(product >> dtype.bits, dtype=object)
    return upper.astype(dtype.numpy)


def _comparison(function: Callable[[Array, Array], Array]) -> Pure:
    def apply(operation: Operation, a: Array, b: Array) -> Array:
        return np.asarray(function(computing(a), computing(b)))

    return apply


# ---- three operands, conversions, addresses


def _select(operation: Operation, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _fma(operation: Operation, a: Array, b: Array, c: Array) -> Array:
    dtype = _dtype(operation)
    return _finish(dtype, fma(computing(a), computing(b), computing(c)))


def _cast(operation: Operation, x: Array) -> Array:
    source, target = element_of(operation.operands[0].type), _element(operation)
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return np.asarray(x.astype(numpy_dtype(target)))
    if target == I1:
        return np.asarray(computing(x) != 0)
    if target.is_float:
        return to_float(x, target, operation.attributes.get("rounding", "rtne"))
    if source.is_float:
        return to_integer(x, target)
    return np.asarray(x.astype(target.numpy))


def _bitcast(operation: Operation, x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(x.shape).view(numpy_dtype(_element(operation)))


def _pointer_add(operation: Operation, pointer: Array, offset: Array) -> Array:
    element = _element(operation)
    assert isinstance(element, Pointer)
    wide = np.asarray(offset.astype(np.int64 if offset.dtype.kind == "i" else np.uint64))
    return np.asarray(pointer + wide.astype(np.uint64) * np.uint64(element.element.bytes))


def constant(operation: Operation) -> Array:
    """Return the value of a CONSTANT as a scalar array."""
    element = _element(operation)
    value = operation.attributes["value"]
    if isinstance(element, DType) and element.is_float:
        return to_float(np.asarray(float(value), np.float64), element)
    if element == I1:
        return np.asarray(bool(value))
    dtype = numpy_dtype(element)
    bits = 8 * dtype.itemsize
    return np.asarray(int(value) % 2**bits, np.dtype(f"u{dtype.itemsize}")).view(dtype)


ELEMENTWISE: dict[Code, Pure] = {
    Code.NEG: _unary(_negative),
    Code.NOT: lambda operation, x: np.asarray(~x),
    Code.ABS: _unary(_absolute),
    Code.EXP: _float_unary(np.exp),
    Code.EXP2: _float_unary(np.exp2),
    Code.EXPM1: _float_unary(np.expm1),
    Code.LOG: _float_unary(np.log),
    Code.LOG2: _float_unary(np.log2),
    Code.LOG10: _float_unary(np.log10),
    Code.LOG1P: _float_unary(np.log1p),
    Code.SQRT: _unary(np.sqrt),
    Code.RSQRT: _float_unary(lambda x: 1 / np.sqrt(x)),
    Code.SIN: _float_unary(np.sin),
    Code.COS: _float_unary(np.cos),
    Code.TAN: _float_unary(np.tan),
    Code.ASIN: _float_unary(np.arcsin),
    Code.ACOS: _float_unary(np.arccos),
    Code.ATAN: _float_unary(np.arctan),
    Code.SINH: _float_unary(np.sinh),
    Code.COSH: _float_unary(np.cosh),
    Code.TANH: _float_unary(np.tanh),
    Code.ERF: _float_unary(_erf),
    Code.SIGMOID: _float_unary(_sigmoid),
    Code.FLOOR: _unary(np.floor),
    Code.CEIL: _unary(np.ceil),
    Code.TRUNC: _unary(np.trunc),
    Code.RINT: _unary(np.rint),
    Code.CAST: _cast,
    Code.BITCAST: _bitcast,
    Code.ADD: _binary(np.add),
    Code.SUB: _binary(np.subtract),
    Code.MUL: _binary(np.multiply),
    Code.DIV: _binary(_divide),
    Code.REM: _binary(_remainder),
    Code.MIN: _extremum(np.fmin, np.minimum),
    Code.MAX: _extremum(np.fmax, np.maximum),
    Code.POW: _float_binary(np.power),
    Code.ATAN2: _float_binary(np.arctan2),
    Code.AND: _bitwise(np.bitwise_and),
    Code.OR: _bitwise(np.bitwise_or),
    Code.XOR: _bitwise(np.bitwise_xor),
    Code.SHL: _shift_left,
    Code.SHR: _shift_right,
    Code.MULHI: _multiply_high,
    Code.EQ: _comparison(np.equal),
    Code.NE: _comparison(np.not_equal),
    Code.LT: _comparison(np.less),
    Code.LE: _comparison(np.less_equal),
    Code.GT: _comparison(np.greater),
    Code.GE: _comparison(np.greater_equal),
    Code.SELECT: _select,
    Code.FMA: _fma,
    Code.PTR_ADD: _pointer_add,
}
"""Definition of each element-wise operation."""
