"""More element-wise ops: functions of floats, rounding, tests of floats, logic and bits.

Rules of data types, rounding and valid shapes are those of :mod:`emu.pypto.elementwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_BOOL, FLOATS, Array
from emu.pypto.elementwise import MAXIMUM, MINIMUM, apply, map_operation, need_float, need_number
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Operation
from emu.pypto.tensor import Operand, Tensor

_erf_of_each = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    result: Array = np.asarray(_erf_of_each(x.astype(np.float64))).astype(x.dtype)
    return result


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    # -inf times 0 would be NaN; the limit is 0.
    values = np.where(wide == -np.inf, -0.0, 0.5 * wide * (1 + _erf(wide / math.sqrt(2))))
    result: Array = values.astype(x.dtype)
    return result


def _gelu_tanh(x: Array) -> npt.ArrayLike:
    one = x.dtype.type
    inner = one(math.sqrt(2 / math.pi)) * (x + one(0.044715) * x * x * x)
    result: Array = np.where(x == -np.inf, -one(0), one(0.5) * x * (1 + np.tanh(inner)))
    return result


def _of_floats(function: Callable[[Array], npt.ArrayLike]) -> Callable[[Array], npt.ArrayLike]:
    """Return a rounding function that leaves integers as they are."""
    return lambda x: function(x) if x.dtype.kind not in "biu" else x


def _pow(x: Array, y: Array) -> npt.ArrayLike:
    if np.result_type(x, y).kind not in "iu":
        result: Array = np.power(x, y)
        return result
    powers = np.power(x, np.maximum(y, y.dtype.type(0)))
    # 1 / x ** -y, cut to an integer: it is 0 unless x is 1 or -1.
    ones = np.where(
        x == 1, 1, np.where((x == -1) if x.dtype.kind == "i" else False, 1 - 2 * (y & 1), 0)
    )
    return np.where(y < 0, ones, powers)


def _relu(x: Array) -> npt.ArrayLike:
    result: Array = np.maximum(x, x.dtype.type(0))
    return result


def _clip(x: Array, low: Array, high: Array) -> npt.ArrayLike:
    result: Array = np.minimum(np.maximum(x, low), high)
    return result


def _silu(x: Array) -> npt.ArrayLike:
    result: Array = x / (1 + np.exp(-x))
    return result


SIN = map_operation("sin", np.sin)
COS = map_operation("cos", np.cos)
TANH = map_operation("tanh", np.tanh)
EXPM1 = map_operation("expm1", np.expm1)
LOG1P = map_operation("log1p", np.log1p)
ERF = map_operation("erf", _erf)
RECIPROCAL = map_operation("reciprocal", lambda x: 1 / x)
GELU = map_operation("gelu", _gelu)
GELU_TANH = map_operation("gelu_tanh", _gelu_tanh)
SILU = map_operation("silu", _silu)
RELU = map_operation("relu", _relu)
SIGN = map_operation("sign", np.sign)
FLOOR = map_operation("floor", _of_floats(np.floor))
CEIL = map_operation("ceil", _of_floats(np.ceil))
ROUND = map_operation("round", _of_floats(np.rint))
TRUNC = map_operation("trunc", _of_floats(np.trunc))
POW = map_operation("pow", _pow)
REMAINDER = map_operation("remainder", np.remainder)
CLIP = map_operation("clip", _clip)
ISNAN = map_operation("isnan", np.isnan)
ISINF = map_operation("isinf", np.isinf)
ISFINITE = map_operation("isfinite", np.isfinite)
LOGICAL_AND = map_operation("logical_and", np.logical_and)
LOGICAL_OR = map_operation("logical_or", np.logical_or)
LOGICAL_XOR = map_operation("logical_xor", np.logical_xor)
LOGICAL_NOT = map_operation("logical_not", np.logical_not)
BITWISE_AND = map_operation("bitwise_and", np.bitwise_and)
BITWISE_OR = map_operation("bitwise_or", np.bitwise_or)
BITWISE_XOR = map_operation("bitwise_xor", np.bitwise_xor)
BITWISE_NOT = map_operation("bitwise_not", np.invert)
LEFT_SHIFT = map_operation("bitwise_left_shift", np.left_shift)
RIGHT_SHIFT = map_operation("bitwise_right_shift", np.right_shift)


def _of_float(operation: Operation, a: Tensor) -> Tensor:
    need_float(operation.name, a)
    return apply(operation, (a,))


def _of_number(operation: Operation, *operands: Operand) -> Tensor:
    need_number(operation.name, *operands)
    return apply(operation, operands)


def _of_bits(operation: Operation, *operands: Operand, bools: bool = True) -> Tensor:
    for value in operands:
        if isinstance(value, Tensor) and (
            value.dtype in FLOATS or (value.dtype is DT_BOOL and not bools)
        ):
            raise DTypeError(
                f"{operation.name} needs an integer{' or DT_BOOL' * bools} tensor, but got "
                f"{value.dtype!r}; cast it first"
            )
    return apply(operation, operands)


# --- functions of floats ----------------------------------------------------------------------------


def sin(a: Tensor) -> Tensor:
    """Return the sine of a float tensor."""
    return _of_float(SIN, a)


def cos(a: Tensor) -> Tensor:
    """Return the cosine of a float tensor."""
    return _of_float(COS, a)


def tanh(a: Tensor) -> Tensor:
    """Return the hyperbolic tangent of a float tensor."""
    return _of_float(TANH, a)


def erf(a: Tensor) -> Tensor:
    """Return the error function of a float tensor."""
    return _of_float(ERF, a)


def expm1(a: Tensor) -> Tensor:
    """Return ``exp(a) - 1`` of a float tensor, exact near 0."""
    return _of_float(EXPM1, a)


def log1p(a: Tensor) -> Tensor:
    """Return ``log(1 + a)`` of a float tensor, exact near 0."""
    return _of_float(LOG1P, a)


def reciprocal(a: Tensor) -> Tensor:
    """Return ``1 / a`` of a float tensor."""
    return _of_float(RECIPROCAL, a)


def gelu(a: Tensor, approximate: str = "none") -> Tensor:
    """Return ``a`` times the normal distribution function of ``a``, of a float tensor.

    Args:
        a: The tensor.
        approximate: ``"none"``: by erf; ``"tanh"``: by the usual approximation.
    """
    if not isinstance(approximate, str) or approximate not in ("none", "tanh"):
        raise ArgumentError(f"approximate must be 'none' or 'tanh', but got {shown(approximate)}")
    return _of_float(GELU if approximate == "none" else GELU_TANH, a)


def silu(a: Tensor) -> Tensor:
    """Return ``a * sigmoid(a)`` of a float tensor."""
    return _of_float(SILU, a)


# --- numbers ----------------------------------------------------------------------------------------


def relu(a: Tensor) -> Tensor:
    """Return the larger of ``a`` and 0; NaN stays."""
    return _of_number(RELU, a)


def sign(a: Tensor) -> Tensor:
    """Return -1, 0 or 1, the sign; of NaN, NaN."""
    return _of_number(SIGN, a)


def floor(a: Tensor) -> Tensor:
    """Return the next integers downwards, in the same data type."""
    return _of_number(FLOOR, a)


def ceil(a: Tensor) -> Tensor:
    """Return the next integers upwards, in the same data type."""
    return _of_number(CEIL, a)


def round(a: Tensor) -> Tensor:
    """Return the nearest integers, ties to even, in the same data type."""
    return _of_number(ROUND, a)


def trunc(a: Tensor) -> Tensor:
    """Return the next integers towards 0, in the same data type."""
    return _of_number(TRUNC, a)


def pow(a: Operand, b: Operand) -> Tensor:
    """Return ``a`` to the power of ``b``; one may be a number.

    Integers wrap; to a negative power they give what remains of the inverse: 1, -1, or 0.
    """
    return _of_number(POW, a, b)


def remainder(a: Operand, b: Operand) -> Tensor:
    """Return what a division of ``a`` by ``b`` leaves, with the sign of ``b``; one may be a number.

    By 0 it is NaN, and 0 for integers.
    """
    return _of_number(REMAINDER, a, b)


def clip(a: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return ``a`` kept between two bounds, each a tensor, a number, or None; the upper one wins.

    NaN stays.
    """
    if min is None and max is None:
        raise ArgumentError("clip: min or max must be given, but got None for both")
    if not isinstance(a, Tensor):
        raise ArgumentError(f"a must be a pypto tensor, but got {shown(a)}")
    if max is None:
        assert min is not None
        return _of_number(MAXIMUM, a, min)
    if min is None:
        return _of_number(MINIMUM, a, max)
    return _of_number(CLIP, a, min, max)


# --- tests and logic --------------------------------------------------------------------------------


def isnan(a: Tensor) -> Tensor:
    """Return whether elements are NaN, as DT_BOOL."""
    need_float("isnan", a)
    return apply(ISNAN, (a,), DT_BOOL)


def isinf(a: Tensor) -> Tensor:
    """Return whether elements are infinite, as DT_BOOL."""
    need_float("isinf", a)
    return apply(ISINF, (a,), DT_BOOL)


def isfinite(a: Tensor) -> Tensor:
    """Return whether elements are neither infinite nor NaN, as DT_BOOL."""
    need_float("isfinite", a)
    return apply(ISFINITE, (a,), DT_BOOL)


def logical_and(a: Operand, b: Operand) -> Tensor:
    """Return whether both are not 0, as DT_BOOL."""
    return apply(LOGICAL_AND, (a, b), DT_BOOL)


def logical_or(a: Operand, b: Operand) -> Tensor:
    """Return whether one is not 0, as DT_BOOL."""
    return apply(LOGICAL_OR, (a, b), DT_BOOL)


def logical_xor(a: Operand, b: Operand) -> Tensor:
    """Return whether exactly one is not 0, as DT_BOOL."""
    return apply(LOGICAL_XOR, (a, b), DT_BOOL)


def logical_not(a: Tensor) -> Tensor:
    """Return whether elements are 0, as DT_BOOL; elsewhere than in the valid part, False."""
    return apply(LOGICAL_NOT, (a,), DT_BOOL)


# --- bits -------------------------------------------------------------------------------------------


def bitwise_and(a: Operand, b: Operand) -> Tensor:
    """Return ``a & b`` of integers or DT_BOOL."""
    return _of_bits(BITWISE_AND, a, b)


def bitwise_or(a: Operand, b: Operand) -> Tensor:
    """Return ``a | b`` of integers or DT_BOOL."""
    return _of_bits(BITWISE_OR, a, b)


def bitwise_xor(a: Operand, b: Operand) -> Tensor:
    """Return ``a ^ b`` of integers or DT_BOOL."""
    return _of_bits(BITWISE_XOR, a, b)


def bitwise_not(a: Tensor) -> Tensor:
    """Return ``~a`` of integers or DT_BOOL."""
    return _of_bits(BITWISE_NOT, a)


def bitwise_left_shift(a: Operand, b: Operand) -> Tensor:
    """Return ``a << b`` of integers; a count below 0, or of all bits or more, leaves 0."""
    return _of_bits(LEFT_SHIFT, a, b, bools=False)


def bitwise_right_shift(a: Operand, b: Operand) -> Tensor:
    """Return ``a >> b`` of integers, with the sign; a count below 0, or of all bits or more, leaves the sign."""
    return _of_bits(RIGHT_SHIFT, a, b, bools=False)
