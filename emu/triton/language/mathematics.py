"""Mathematical functions, element by element."""

from __future__ import annotations

from typing import Any

from emu.kernels.core.messages import shown
from emu.tile.ops import Code
from emu.triton.language.arithmetic import integer_operation
from emu.triton.language.constants import unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, computed, is_number, to_tensor
from emu.triton.language.values import TensorLike, member, tensor

SINGLE_DOUBLE = ("fp32", "fp64")


def checked(what: str, x: TensorLike, dtypes: tuple[str, ...] = SINGLE_DOUBLE) -> tensor:
    """Return a value as a tensor.

    Raises:
        ValueError: The dtype is not one of ``dtypes``.
    """
    value = to_tensor(x)
    if value.dtype.name not in dtypes:
        raise ValueError(f"Expected dtype {' or '.join(dtypes)} for {what}, but got {value}")
    return value


def unary(code: Code, x: tensor) -> tensor:
    """Apply an operation of one operand."""
    return tensor(builder().unary(code, x.handle), x.type)


@member
def exp(x: TensorLike) -> tensor:
    """Return the exponential; fp32 or fp64."""
    return unary(Code.EXP, checked("exp", x))


@member
def exp2(x: TensorLike) -> tensor:
    """Return 2 to the power of ``x``; fp32 or fp64."""
    return unary(Code.EXP2, checked("exp2", x))


@member
def log(x: TensorLike) -> tensor:
    """Return the natural logarithm; fp32 or fp64."""
    return unary(Code.LOG, checked("log", x))


@member
def log2(x: TensorLike) -> tensor:
    """Return the logarithm to the base 2; fp32 or fp64."""
    return unary(Code.LOG2, checked("log2", x))


@member
def cos(x: TensorLike) -> tensor:
    """Return the cosine; fp32 or fp64."""
    return unary(Code.COS, checked("cos", x))


@member
def sin(x: TensorLike) -> tensor:
    """Return the sine; fp32 or fp64."""
    return unary(Code.SIN, checked("sin", x))


@member
def sqrt(x: TensorLike) -> tensor:
    """Return the square root; fp32 or fp64."""
    return unary(Code.SQRT, checked("sqrt", x))


@member
def sqrt_rn(x: TensorLike) -> tensor:
    """Return the square root, rounded to nearest even; fp32."""
    return unary(Code.SQRT, checked("sqrt_rn", x, ("fp32",)))


@member
def rsqrt(x: TensorLike) -> tensor:
    """Return one over the square root; fp32 or fp64."""
    return unary(Code.RSQRT, checked("rsqrt", x))


@member
def erf(x: TensorLike) -> tensor:
    """Return the error function; fp32 or fp64."""
    return unary(Code.ERF, checked("erf", x))


@member
def floor(x: TensorLike) -> tensor:
    """Return the largest integer that is not above ``x``; fp32 or fp64."""
    return unary(Code.FLOOR, checked("floor", x))


@member
def ceil(x: TensorLike) -> tensor:
    """Return the smallest integer that is not below ``x``; fp32 or fp64."""
    return unary(Code.CEIL, checked("ceil", x))


@member
def abs(x: TensorLike) -> tensor:
    """Return the absolute value; the smallest signed integer stays as it is."""
    value = to_tensor(x)
    if value.dtype.is_ptr():
        raise TypeError(f"abs needs numbers, but got {value}")
    # ABS would take the highest bit of an unsigned integer for a sign.
    if value.dtype.is_int_unsigned():
        return value
    return cast_to(unary(Code.ABS, computed(value)), value.dtype)


def umulhi(x: TensorLike, y: TensorLike) -> tensor:
    """Return the upper half of the unsigned product; int32, int64, uint32 or uint64."""
    for operand in (x, y):
        if isinstance(operand, tensor):
            checked("umulhi", operand, ("int32", "int64", "uint32", "uint64"))
    return integer_operation(Code.MULHI, x, y)


@member
def sigmoid(x: TensorLike) -> tensor:
    """Return ``1 / (1 + exp(-x))``; fp32 or fp64."""
    return unary(Code.SIGMOID, checked("sigmoid", x))


@member
def cdiv(x: TensorLike, div: TensorLike) -> Any:
    """Return ``x / div`` rounded up, of positive integers; of numbers known at compile time a constexpr.

    Raises:
        TypeError: One is not a number.
        ValueError: ``div`` is a 0 known at compile time.
    """
    for name, value in (("x", unwrap(x)), ("div", unwrap(div))):
        if not isinstance(value, tensor) and not is_number(value):
            raise TypeError(f"{name} of cdiv must be an integer, but got {shown(value)}")
    if not isinstance(div, tensor) and unwrap(div) == 0:
        raise ValueError("div of cdiv must not be 0")
    return (x + (div - 1)) // div
