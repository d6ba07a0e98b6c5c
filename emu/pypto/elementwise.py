"""Element-wise ops, and the data types and valid shapes of their results.

Computation is in FP32 (FP64 for FP64) and each op rounds once to its data type; integers wrap.

*Valid shapes.* Elements outside a valid shape read as 0, so the valid part of a result is the largest
of those of its operands, axis by axis; an operand of extent 1 that is broadcast along an axis does not
count there, nor does a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard, overload

import numpy as np
import numpy.typing as npt

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DT_BOOL, DT_FP64, FLOATS, FP32, Array, DataType, DTypeLike, as_dtype
from emu.pypto.dtypes import convert as convert_array
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.symbolic import Shape
from emu.pypto.tensor import (
    OPERATORS,
    Number,
    Operand,
    Tensor,
    check_tensor,
    new_tensor,
    submit,
)


@overload
def widen(array: Array) -> Array: ...
@overload
def widen(array: np.generic) -> np.generic: ...
def widen(array: Array | np.generic) -> Array | np.generic:
    """Return operands in the type of arithmetic on them: FP32 for halves."""
    if array.dtype.kind in "biu" or array.dtype.itemsize >= 4:
        return array
    return array.astype(FP32)


def broadcast_shape(tensors: list[Tensor], op: str) -> Shape:
    """Return the shape that tensors broadcast to."""
    try:
        return np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        shapes = " and ".join(str(list(t.shape)) for t in tensors)
        raise ArgumentError(
            f"{op}: shapes must broadcast to each other, but got {shapes}"
        ) from None


def _joint_valid(tensors: list[Tensor], shape: Shape) -> Shape:
    if all(t.valid_shape == t.shape for t in tensors):
        return shape
    valid = [0] * len(shape)
    for t in tensors:
        lead = len(shape) - t.ndim
        for axis, (extent, part) in enumerate(zip(t.shape, t.valid_shape, strict=True), lead):
            # An axis that is broadcast (extent 1) does not count.
            if extent == shape[axis]:
                valid[axis] = max(valid[axis], part)
    return tuple(valid)


def _check_operands(op: str, operands: tuple[Operand, ...]) -> None:
    for i, value in enumerate(operands):
        if not isinstance(value, Tensor) and not is_number(value):
            raise ArgumentError(
                f"{op}: operand {i} must be a tensor or a number, but got {shown(value)}"
            )


def _operands(op: str, operands: tuple[Operand, ...]) -> tuple[list[Tensor], DataType]:
    _check_operands(op, operands)
    tensors = [value for value in operands if isinstance(value, Tensor)]
    if not tensors:
        raise ArgumentError(
            f"{op}: operand 0 or operand 1 must be a tensor, but got {shown(operands)}"
        )
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        if t.dtype is not dtype:
            raise DTypeError(
                f"{op}: operands must have one dtype, but got {dtype!r} and {t.dtype!r}; cast one"
            )
    return tensors, dtype


def is_number(value: object) -> TypeGuard[Number]:
    """Return whether a value is a real number, Python's or NumPy's."""
    return isinstance(value, int | float | np.integer | np.floating | np.bool_)


def fits(number: int, dtype: DataType) -> bool:
    """Return whether an integer data type holds a number."""
    limits = np.iinfo(dtype.np_dtype)
    return bool(limits.min <= number <= limits.max)


def scalar(op: str, value: Number, dtype: DataType) -> np.generic:
    """Return a number as an operand: a float as the arithmetic's type, an integer checked."""
    if type(value) is float and -1e38 < value < 1e38 and dtype in FLOATS:
        return np.float64(value) if dtype is DT_FP64 else np.float32(value)
    try:
        if dtype in FLOATS:
            with np.errstate(all="ignore"):
                return np.float64(value) if dtype is DT_FP64 else np.float32(value)
        if isinstance(value, float | np.floating) and not float(value).is_integer():
            raise DTypeError(
                f"{op}: the number must be an integer for {dtype!r}, but got {value!r}"
            )
        element: np.generic = dtype.np_dtype.type(int(value))
        return element
    except OverflowError:
        raise ArgumentError(
            f"{op}: the number must fit {dtype!r}, but got {shown(value)}"
        ) from None


def _map(name: str, function: Callable[..., npt.ArrayLike]) -> Operation:
    """Return the operation that applies a function of NumPy to widened operands and rounds once."""

    def reference(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
        outputs[0][...] = function(*[widen(x) for x in inputs])

    return Operation(name, "map", reference)


def _apply(
    operation: Operation, operands: tuple[Operand, ...], result: DataType | None = None
) -> Tensor:
    """Submit an element-wise op."""
    first = operands[0]
    if type(first) is Tensor and _are_alike(first, operands):
        # By far the most: nothing is broadcast, and nothing to be checked.
        out = new_tensor(first.shape, result or first.dtype, first.valid_shape)
        submit(operation, operands, (out,))  # type: ignore[arg-type]  # they are tensors
        return out
    op = operation.name
    tensors, dtype = _operands(op, operands)
    shape = broadcast_shape(tensors, op)
    valid = _joint_valid(tensors, shape)
    inputs = tuple([v if isinstance(v, Tensor) else scalar(op, v, dtype) for v in operands])
    out = new_tensor(shape, dtype if result is None else result, valid)
    submit(operation, inputs, (out,))
    return out


def _are_alike(first: Tensor, operands: tuple[Operand, ...]) -> bool:
    """Return whether operands are tensors of one data type, shape and valid shape."""
    for other in operands[1:]:
        if (
            type(other) is not Tensor
            or other.dtype is not first.dtype
            or other.shape != first.shape
            or other.valid_shape != first.valid_shape
        ):
            return False
    return True


def _need_float(op: str, *operands: Operand) -> None:
    for value in operands:
        if isinstance(value, Tensor) and value.dtype not in FLOATS:
            raise DTypeError(f"{op} needs a float tensor, but got {value.dtype!r}; cast it first")


def _need_number(op: str, *operands: Operand) -> None:
    for value in operands:
        if isinstance(value, Tensor) and value.dtype is DT_BOOL:
            raise DTypeError(f"{op} needs a number tensor, but got {value.dtype!r}; cast it first")


ADD = _map("add", np.add)
SUB = _map("sub", np.subtract)
MUL = _map("mul", np.multiply)
DIV = _map("div", np.divide)
MAXIMUM = _map("maximum", np.maximum)
MINIMUM = _map("minimum", np.minimum)
EXP = _map("exp", np.exp)
LOG = _map("log", np.log)
SQRT = _map("sqrt", np.sqrt)
RSQRT = _map("rsqrt", lambda x: 1 / np.sqrt(x))
SIGMOID = _map("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
ABS = _map("abs", np.abs)
NEG = _map("neg", np.negative)
EQ = _map("eq", np.equal)
NE = _map("ne", np.not_equal)
GT = _map("gt", np.greater)
GE = _map("ge", np.greater_equal)
LT = _map("lt", np.less)
LE = _map("le", np.less_equal)


def add(a: Operand, b: Operand) -> Tensor:
    """Return ``a + b``; one may be a number."""
    return _apply(ADD, (a, b))


def sub(a: Operand, b: Operand) -> Tensor:
    """Return ``a - b``; one may be a number."""
    _need_number("sub", a, b)
    return _apply(SUB, (a, b))


def mul(a: Operand, b: Operand) -> Tensor:
    """Return ``a * b``; one may be a number."""
    return _apply(MUL, (a, b))


def div(a: Operand, b: Operand) -> Tensor:
    """Return ``a / b`` of float tensors; one may be a number."""
    _need_float("div", a, b)
    return _apply(DIV, (a, b))


def maximum(a: Operand, b: Operand) -> Tensor:
    """Return the larger, element by element; NaN wins."""
    return _apply(MAXIMUM, (a, b))


def minimum(a: Operand, b: Operand) -> Tensor:
    """Return the smaller, element by element; NaN wins."""
    return _apply(MINIMUM, (a, b))


def exp(a: Tensor) -> Tensor:
    """Return e to the power of a float tensor."""
    _need_float("exp", a)
    return _apply(EXP, (a,))


def log(a: Tensor) -> Tensor:
    """Return the natural logarithm of a float tensor."""
    _need_float("log", a)
    return _apply(LOG, (a,))


def sqrt(a: Tensor) -> Tensor:
    """Return the square root of a float tensor."""
    _need_float("sqrt", a)
    return _apply(SQRT, (a,))


def rsqrt(a: Tensor) -> Tensor:
    """Return one over the square root of a float tensor."""
    _need_float("rsqrt", a)
    return _apply(RSQRT, (a,))


def sigmoid(a: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-a))`` of a float tensor."""
    _need_float("sigmoid", a)
    return _apply(SIGMOID, (a,))


def abs(a: Tensor) -> Tensor:
    """Return the absolute value."""
    return _apply(ABS, (a,))


def neg(a: Tensor) -> Tensor:
    """Return ``-a``."""
    _need_number("neg", a)
    return _apply(NEG, (a,))


def eq(a: Operand, b: Operand) -> Tensor:
    """Return ``a == b`` as DT_BOOL; the operator ``==`` compares identity."""
    return _apply(EQ, (a, b), DT_BOOL)


def ne(a: Operand, b: Operand) -> Tensor:
    """Return ``a != b`` as DT_BOOL; the operator ``!=`` compares identity."""
    return _apply(NE, (a, b), DT_BOOL)


def gt(a: Operand, b: Operand) -> Tensor:
    """Return ``a > b`` as DT_BOOL."""
    return _apply(GT, (a, b), DT_BOOL)


def ge(a: Operand, b: Operand) -> Tensor:
    """Return ``a >= b`` as DT_BOOL."""
    return _apply(GE, (a, b), DT_BOOL)


def lt(a: Operand, b: Operand) -> Tensor:
    """Return ``a < b`` as DT_BOOL."""
    return _apply(LT, (a, b), DT_BOOL)


def le(a: Operand, b: Operand) -> Tensor:
    """Return ``a <= b`` as DT_BOOL."""
    return _apply(LE, (a, b), DT_BOOL)


def cast(a: Tensor, dtype: DTypeLike) -> Tensor:
    """Convert to another data type.

    To a lower float: to nearest, ties to even. To an integer: the fraction is cut off, values beyond
    the range give its ends, NaN gives 0. To DT_BOOL: whether it is not 0.
    """
    check_tensor(a, "a")
    target = as_dtype(dtype)
    out = new_tensor(a.shape, target, a.valid_shape)
    submit(CAST, (a,), (out,), (target,))
    return out


def _cast(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (target,) = attributes
    outputs[0][...] = convert_array(np.asarray(inputs[0]), target)


CAST = Operation("cast", "map", _cast)


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """Return ``a`` where the condition (DT_BOOL, or integers not 0) holds, and ``b`` elsewhere.

    If ``a`` and ``b`` are both numbers the result is DT_FP32.
    """
    check_tensor(condition, "condition")
    if condition.dtype in FLOATS:
        raise DTypeError(
            f"where: condition must be DT_BOOL or integer, but got {condition.dtype!r}"
        )
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        choices, dtype = _operands("where", (a, b))
    else:
        _check_operands("where", (a, b))
        choices, dtype = [], DataType.DT_FP32
    tensors = [condition, *choices]
    shape = broadcast_shape(tensors, "where")
    valid = _joint_valid(tensors, shape)
    with np.errstate(all="ignore"):
        inputs = tuple(
            [
                v if isinstance(v, Tensor) else dtype.np_dtype.type(scalar("where", v, dtype))
                for v in (a, b)
            ]
        )
    out = new_tensor(shape, dtype, valid)
    submit(WHERE, (condition, *inputs), (out,))
    return out


def _where(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
    condition, x, y = inputs
    outputs[0][...] = np.where(condition.astype(np.bool_), x, y)


WHERE = Operation("where", "map", _where)

OPERATORS.update(add=add, sub=sub, mul=mul, div=div, gt=gt, ge=ge, lt=lt, le=le, neg=neg, abs=abs)
