"""Arithmetic, comparisons, bits and choices, element by element."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Sequence
from typing import Any, TypeGuard

from emu.tile.ops import Code
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import (
    bitcast_to,
    cast_to,
    computed,
    constant,
    is_number,
    to_tensor,
)
from emu.triton.language.promotion import computation_type, scalar_dtype
from emu.triton.language.shapes import broadcast_tensors
from emu.triton.language.types import (
    dtype,
    float32,
    get_int_dtype,
    int1,
    int32,
    int64,
)
from emu.triton.language.values import Scalar, TensorLike, operation, tensor

Pair = tuple[tensor, tensor]


class PropagateNan(enum.IntEnum):
    """Choice between a NaN and a number, for minimum and maximum."""

    NONE = 0
    ALL = 0xFFFF


def operand(x: TensorLike) -> tensor | Scalar:
    """Return a tensor unchanged, anything else as a Python number.

    Raises:
        TypeError: ``x`` is neither a tensor nor a number.
    """
    if isinstance(x, tensor):
        return x
    value = unwrap(x)
    if not is_number(value):
        to_tensor(value)  # raises
    number: Scalar = value.item() if hasattr(value, "item") else value
    return number


def _describe(x: object) -> str:
    return str(x) if isinstance(x, tensor) else f"{x!r} ({scalar_dtype(x)})"


def _invalid(what: str, a: object, b: object) -> TypeError:
    said = f"{_describe(a)} and {_describe(b)}"
    return TypeError(f"invalid operands of type {said}: cannot {what} them")


def _computed(value: tensor | Scalar, to: dtype) -> tensor:
    """Return an operand in the dtype of the computation."""
    if isinstance(value, tensor):
        return cast_to(value, to)
    if to.is_int():
        if to.is_int_unsigned() and value < 0:
            raise ValueError(
                f"a negative number cannot be combined with unsigned {to}, but got {value}; cast one"
            )
        if not to.get_int_min_value() <= value <= to.get_int_max_value():
            raise ValueError(
                f"a number that is combined with {to} must be in [{to.get_int_min_value()}, "
                f"{to.get_int_max_value()}], but {value} is out of range"
            )
    return constant(value, to)


def promoted(what: str, lhs: TensorLike, rhs: TensorLike, division: bool = False) -> Pair:
    """Return two operands in their common dtype and shape.

    Args:
        what: The operation, for the text of errors.
        lhs: A tensor or a number.
        rhs: A tensor or a number.
        division: Whether floats are fp32 at least.

    Raises:
        TypeError: The dtypes cannot be combined.
        ValueError: The shapes cannot be combined, or a number is out of range.
    """
    a, b = operand(lhs), operand(rhs)
    a_type = a.dtype if isinstance(a, tensor) else scalar_dtype(a)
    b_type = b.dtype if isinstance(b, tensor) else scalar_dtype(b)
    if a_type.is_ptr() or b_type.is_ptr():
        raise _invalid(what, a, b)
    try:
        to = computation_type(
            a_type, not isinstance(a, tensor), b_type, not isinstance(b, tensor), division
        )
    except TypeError as error:
        raise TypeError(f"cannot {what} {_describe(a)} and {_describe(b)}: {error}") from None
    first, second = _computed(a, to), _computed(b, to)
    try:
        first, second = broadcast_tensors(first, second)
    except ValueError as error:
        raise ValueError(f"cannot {what} {_describe(a)} and {_describe(b)}: {error}") from None
    return first, second


def promoted_all(what: str, *operands: TensorLike) -> tuple[tensor, ...]:
    """Return more than two operands in their common dtype and shape.

    Numbers are combined with the tensors' common dtype, whatever their order.
    """
    values = [operand(x) for x in operands]
    tensors = [v.dtype for v in values if isinstance(v, tensor)]
    scalars = [scalar_dtype(v) for v in values if not isinstance(v, tensor)]
    said = ", ".join(_describe(v) for v in values)
    if any(t.is_ptr() for t in tensors):
        raise TypeError(f"cannot {what} {said}")

    def combined(types: list[dtype], scalar: bool) -> dtype:
        found = types[0]
        for other in types[1:]:
            found = computation_type(found, scalar, other, scalar)
        return found

    if not tensors:
        to = combined(scalars, True)
    else:
        to = combined(tensors, False)
        if scalars:
            to = computation_type(to, False, combined(scalars, True), True)
    try:
        return broadcast_tensors(*(_computed(v, to) for v in values))
    except ValueError as error:
        raise ValueError(f"cannot {what} {said}: {error}") from None


def _binary(code: Code, a: tensor, b: tensor, **attributes: bool) -> tensor:
    # The floats that the IR holds as bytes are computed in fp32, as all narrow floats are, and rounded back.
    left, right = computed(a), computed(b)
    result = tensor(builder().binary(code, left.handle, right.handle, **attributes), left.type)
    return cast_to(result, a.dtype)


def _is_pointer(x: object) -> TypeGuard[tensor]:
    return isinstance(x, tensor) and x.dtype.is_ptr()


def _offset_pointer(what: str, pointer: tensor, offset: TensorLike) -> tensor:
    by = to_tensor(operand(offset))
    if not by.dtype.is_int():
        raise TypeError(f"cannot {what} {pointer} and {by}: an offset must be an integer")
    if by.dtype.is_bool():
        by = cast_to(by, int32)
    try:
        pointer, by = broadcast_tensors(pointer, by)
    except ValueError as error:
        raise ValueError(f"cannot {what} {pointer} and {by}: {error}") from None
    return tensor(builder().ptr_add(pointer.handle, by.handle), pointer.type)


@operation
def add(x: TensorLike, y: TensorLike, sanitize_overflow: ConstexprLike[bool] = True) -> tensor:
    """Return ``x + y``; a pointer plus an integer is the pointer moved by that many elements.

    Args:
        x: A tensor or number.
        y: A tensor or number.
        sanitize_overflow: Accepted; integers wrap.
    """
    del sanitize_overflow
    if _is_pointer(x) and _is_pointer(y):
        raise TypeError(f"cannot add two pointers, but got {x} and {y}")
    if _is_pointer(x):
        return _offset_pointer("add", x, y)
    if _is_pointer(y):
        return _offset_pointer("add", y, x)
    return _binary(Code.ADD, *promoted("add", x, y))


@operation
def sub(x: TensorLike, y: TensorLike, sanitize_overflow: ConstexprLike[bool] = True) -> tensor:
    """Return ``x - y``; a pointer minus an integer is the pointer moved back by that many elements."""
    del sanitize_overflow
    if _is_pointer(x) and not _is_pointer(y):
        return _offset_pointer("subtract", x, minus(to_tensor(operand(y))))
    return _binary(Code.SUB, *promoted("subtract", x, y))


@operation
def mul(x: TensorLike, y: TensorLike, sanitize_overflow: ConstexprLike[bool] = True) -> tensor:
    """Return ``x * y``."""
    del sanitize_overflow
    return _binary(Code.MUL, *promoted("multiply", x, y))


@operation
def truediv(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x / y``; of integers and of floats narrower than fp32 in fp32."""
    a, b = promoted("divide", x, y, division=True)
    if a.dtype.is_int():
        a, b = cast_to(a, float32), cast_to(b, float32)
    return _binary(Code.DIV, a, b)


@operation
def floordiv(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x // y`` of integers, rounded toward zero as in C."""
    a, b = promoted("divide", x, y, division=True)
    if not a.dtype.is_int():
        raise TypeError(f"// must have integers, but got {a} and {b}; use / and tl.floor")
    return _binary(Code.DIV, a, b)


@operation
def mod(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x % y`` with the sign of ``x``, as in C."""
    return _binary(Code.REM, *promoted("take the remainder of", x, y, division=True))


def fdiv(
    x: TensorLike,
    y: TensorLike,
    ieee_rounding: ConstexprLike[bool] = False,
    approx: ConstexprLike[bool] = False,
) -> tensor:
    """Return ``x / y`` of floats, correctly rounded whatever the flags are.

    Raises:
        TypeError: Both operands are integers.
        ValueError: Both flags are set, or ``approx`` is set and the operands are not fp32.
    """
    a, b = promoted("divide", x, y, division=True)
    if not a.dtype.is_floating():
        raise TypeError(f"fdiv needs floating-point operands, but got {a} and {b}")
    if unwrap(approx) and unwrap(ieee_rounding):
        raise ValueError("approx and ieee_rounding must not both be true")
    if unwrap(approx) and a.dtype != float32:
        raise ValueError(f"approx must only be true for float32, but got {a} and {b}")
    return _binary(Code.DIV, a, b)


def div_rn(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x / y`` of fp32, rounded to nearest even."""
    for given in (x, y):
        if isinstance(given, tensor) and given.dtype != float32:
            raise ValueError(f"div_rn needs operands of float32, but got {given}")
    a, b = promoted("divide", x, y)
    if a.dtype != float32:
        raise ValueError(f"div_rn needs operands of float32, but got {a} and {b}")
    return _binary(Code.DIV, a, b)


def _nan_attribute(propagate_nan: ConstexprLike[PropagateNan]) -> dict[str, bool]:
    value = unwrap(propagate_nan)
    if value not in (PropagateNan.NONE, PropagateNan.ALL):
        raise ValueError(f"propagate_nan must be PropagateNan.NONE or ALL, but got {value!r}")
    return {"propagate_nan": value == PropagateNan.ALL}


def minimum(
    x: TensorLike, y: TensorLike, propagate_nan: ConstexprLike[PropagateNan] = PropagateNan.NONE
) -> tensor:
    """Return the smaller of each two elements.

    Args:
        x: A tensor or number.
        y: A tensor or number.
        propagate_nan: ``PropagateNan.NONE`` returns the other element where one is NaN,
            ``PropagateNan.ALL`` returns NaN. Default: NONE.
    """
    a, b = promoted("take the minimum of", x, y)
    return _binary(Code.MIN, a, b, **_nan_attribute(propagate_nan))


def maximum(
    x: TensorLike, y: TensorLike, propagate_nan: ConstexprLike[PropagateNan] = PropagateNan.NONE
) -> tensor:
    """Return the larger of each two elements; ``propagate_nan`` as in :func:`minimum`."""
    a, b = promoted("take the maximum of", x, y)
    return _binary(Code.MAX, a, b, **_nan_attribute(propagate_nan))


def clamp(
    x: TensorLike,
    min: TensorLike,
    max: TensorLike,
    propagate_nan: ConstexprLike[PropagateNan] = PropagateNan.NONE,
) -> tensor:
    """Return ``x``, but at least ``min`` and at most ``max``; ``propagate_nan`` as in :func:`minimum`."""
    value, low, high = promoted_all("clamp", x, min, max)
    nan = _nan_attribute(propagate_nan)
    return _binary(Code.MIN, _binary(Code.MAX, value, low, **nan), high, **nan)


def fma(x: TensorLike, y: TensorLike, z: TensorLike) -> tensor:
    """Return ``x * y + z`` with one rounding; of integers wrapped."""
    a, b, c = promoted_all("multiply and add", x, y, z)
    if not a.dtype.is_floating():
        raise TypeError(f"fma needs floating-point operands, but got {a}, {b} and {c}")
    first, second, third = computed(a), computed(b), computed(c)
    handle = builder().fma(first.handle, second.handle, third.handle)
    return cast_to(tensor(handle, first.type), a.dtype)


@operation
def minus(x: tensor) -> tensor:
    """Return ``-x``; of integers wrapped.

    Raises:
        TypeError: ``x`` is a pointer.
    """
    if x.dtype.is_ptr():
        raise TypeError(f"cannot negate {x}")
    if x.dtype.is_bool():
        return x  # -1 is 1 in one bit
    value = computed(x)
    return cast_to(tensor(builder().unary(Code.NEG, value.handle), value.type), x.dtype)


@operation
def invert(x: tensor) -> tensor:
    """Return ``~x``; of int1 the logical not.

    Raises:
        TypeError: ``x`` is a float or a pointer.
    """
    if not x.dtype.is_int():
        raise TypeError(f"cannot invert {x}: only integers have bits to invert")
    return tensor(builder().unary(Code.NOT, x.handle), x.type)


def _bits(what: str, x: TensorLike, y: TensorLike) -> Pair:
    a, b = promoted(what, x, y)
    if not a.dtype.is_int():
        raise _invalid(what, operand(x), operand(y))
    return a, b


@operation
def and_(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x & y``."""
    return _binary(Code.AND, *_bits("and", x, y))


@operation
def or_(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x | y``."""
    return _binary(Code.OR, *_bits("or", x, y))


@operation
def xor_(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x ^ y``."""
    return _binary(Code.XOR, *_bits("xor", x, y))


def _check_width(x: TensorLike, by: TensorLike) -> None:
    count = unwrap(by)
    if isinstance(x, tensor) and isinstance(count, int) and count >= x.dtype.primitive_bitwidth:
        warnings.warn(
            f"a shift by {count} is at least the width of {x.dtype}; its result is undefined in Triton",
            stacklevel=4,
        )


@operation
def shl(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x << y``."""
    _check_width(x, y)
    a, b = _bits("shift", x, y)
    if a.dtype.is_bool():
        return _binary(Code.AND, a, invert(b))
    return _binary(Code.SHL, a, b)


@operation
def shr(x: TensorLike, y: TensorLike, by: dtype) -> tensor:
    """Return ``x >> y``: sign bits come in if the dtype ``by`` is signed."""
    _check_width(x, y)
    a, b = _bits("shift", x, y)
    if a.dtype.is_bool():
        return _binary(Code.AND, a, invert(b))
    if a.dtype.is_int_signed() == by.is_int_signed():
        return _binary(Code.SHR, a, b)
    other = get_int_dtype(a.dtype.int_bitwidth, by.is_int_signed())
    return bitcast_to(_binary(Code.SHR, bitcast_to(a, other), bitcast_to(b, other)), a.dtype)


def _compared(code: Code, x: TensorLike, y: TensorLike) -> tensor:
    if _is_pointer(x) and _is_pointer(y):
        if x.dtype != y.dtype:
            raise _invalid("compare", x, y)
        a, b = broadcast_tensors(x, y)
    else:
        a, b = map(computed, promoted("compare", x, y))
    handle = builder().compare(code, a.handle, b.handle)
    return tensor(handle, a.type.with_element_ty(int1))


@operation
def equal(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x == y``."""
    return _compared(Code.EQ, x, y)


@operation
def not_equal(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x != y``; true where one is NaN."""
    return _compared(Code.NE, x, y)


@operation
def less_than(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x < y``."""
    return _compared(Code.LT, x, y)


@operation
def less_equal(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x <= y``."""
    return _compared(Code.LE, x, y)


@operation
def greater_than(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x > y``."""
    return _compared(Code.GT, x, y)


@operation
def greater_equal(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x >= y``."""
    return _compared(Code.GE, x, y)


def _condition(x: TensorLike, what: str) -> tensor:
    condition = to_tensor(x)
    if condition.dtype.is_ptr():  # as in Triton: whether it points to something
        return not_equal(cast_to(condition, int64), 0)
    if condition.dtype != int1:
        raise TypeError(f"{what} must have conditions of int1, but got {condition}; compare it")
    return condition


@operation
def logical_and(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x and y`` of conditions; both are evaluated."""
    return and_(_condition(x, "and"), _condition(y, "and"))


@operation
def logical_or(x: TensorLike, y: TensorLike) -> tensor:
    """Return ``x or y`` of conditions; both are evaluated."""
    return or_(_condition(x, "or"), _condition(y, "or"))


@operation
def not_(x: TensorLike) -> tensor:
    """Return ``not x`` of a condition."""
    return invert(_condition(x, "not"))


def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> tensor:
    """Return the elements of ``x`` where the condition is true, those of ``y`` elsewhere.

    Both are evaluated everywhere; mask a load to keep it from reading.

    Args:
        condition: A tensor of int1; other numbers are true if they are not 0.
        x: A tensor or number.
        y: A tensor or number; promoted with ``x``, or a pointer of the same type.
    """
    given = to_tensor(condition)
    if given.dtype != int1:
        _warn_of_condition(given)
    chosen = cast_to(given, int1)
    if _is_pointer(x) or _is_pointer(y):
        if not (_is_pointer(x) and _is_pointer(y) and x.dtype == y.dtype):
            raise _invalid("choose between", operand(x), operand(y))
        a, b = x, y
    else:
        a, b = promoted("choose between", x, y)
    try:
        chosen, a, b = broadcast_tensors(chosen, a, b)
    except ValueError as error:
        raise ValueError(f"cannot choose by {chosen} between {a} and {b}: {error}") from None
    return tensor(builder().select(chosen.handle, a.handle, b.handle), a.type)


def _warn_of_condition(condition: tensor) -> None:
    place = builder().location
    warnings.warn_explicit(
        f"the condition of tl.where should be int1, but is {condition}; compare it with 0",
        category=UserWarning,
        filename=place.file if place else __file__,
        lineno=place.line if place else 0,
    )


def integer_operation(code: Code, x: TensorLike, y: TensorLike) -> tensor:
    """Emit MULHI: the upper half of an unsigned product."""
    a, b = promoted("multiply", x, y)
    if a.dtype.is_bool() or not a.dtype.is_int():
        raise TypeError(f"umulhi needs integers of 32 or 64 bits, but got {a} and {b}")
    unsigned = get_int_dtype(a.dtype.int_bitwidth, False)
    return bitcast_to(_binary(code, bitcast_to(a, unsigned), bitcast_to(b, unsigned)), a.dtype)


def known_extreme(name: str, values: Sequence[Any]) -> Any:
    """Return Python's ``max`` or ``min`` of values known at compile time.

    Raises:
        ValueError: One is NaN or a negative zero, of which the result would depend on the order.
    """
    for value in values:
        if isinstance(value, float) and (math.isnan(value) or str(value) == "-0.0"):
            raise ValueError(f"{name} of constexprs takes neither NaN nor -0.0, but got {value}")
    return max(values) if name == "max" else min(values)
