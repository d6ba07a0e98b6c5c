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
from emu.pypto.casting import Mode, check_mode, check_saturate, convert_by, is_plain
from emu.pypto.dtypes import DT_BOOL, DT_FP64, FLOATS, FP32, Array, DataType, DTypeLike, as_dtype
from emu.pypto.dtypes import convert as convert_array
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.submission import submit
from emu.pypto.symbolic import Shape
from emu.pypto.tensor import OPERATORS, Number, Operand, Tensor, check_tensor, new_tensor


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


def joint_valid(tensors: list[Tensor], shape: Shape) -> Shape:
    """Return the valid shape of what is computed element by element."""
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


def check_operands(op: str, operands: tuple[Operand, ...]) -> None:
    """Check that operands are tensors or numbers."""
    for i, value in enumerate(operands):
        if not isinstance(value, Tensor) and not is_number(value):
            raise ArgumentError(
                f"{op}: operand {i} must be a tensor or a number, but got {shown(value)}"
            )


def _operands(op: str, operands: tuple[Operand, ...]) -> tuple[list[Tensor], DataType]:
    check_operands(op, operands)
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


def map_operation(name: str, function: Callable[..., npt.ArrayLike]) -> Operation:
    """Return the operation that applies a function of NumPy to widened operands and rounds once."""

    is_ufunc = isinstance(function, np.ufunc)

    def reference(inputs: Values, outputs: tuple[Array, ...], _: Attributes) -> None:
        dtype = inputs[0].dtype
        if is_ufunc and (dtype.itemsize >= 4 or dtype.kind in "biu"):
            function(*inputs, out=outputs[0])
        else:
            outputs[0][...] = function(*[widen(x) for x in inputs])

    return Operation(name, "map", reference)


def apply(
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
    valid = joint_valid(tensors, shape)
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


def need_float(op: str, *operands: Operand) -> None:
    """Check that the tensors among the operands hold floats."""
    for value in operands:
        if isinstance(value, Tensor) and value.dtype not in FLOATS:
            raise DTypeError(f"{op} needs a float tensor, but got {value.dtype!r}; cast it first")


def need_number(op: str, *operands: Operand) -> None:
    """Check that the tensors among the operands hold numbers, not DT_BOOL."""
    for value in operands:
        if isinstance(value, Tensor) and value.dtype is DT_BOOL:
            raise DTypeError(f"{op} needs a number tensor, but got {value.dtype!r}; cast it first")


ADD = map_operation("add", np.add)
SUB = map_operation("sub", np.subtract)
MUL = map_operation("mul", np.multiply)
DIV = map_operation("div", np.divide)
MAXIMUM = map_operation("maximum", np.maximum)
MINIMUM = map_operation("minimum", np.minimum)
EXP = map_operation("exp", np.exp)
LOG = map_operation("log", np.log)
SQRT = map_operation("sqrt", np.sqrt)
RSQRT = map_operation("rsqrt", lambda x: 1 / np.sqrt(x))
SIGMOID = map_operation("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
ABS = map_operation("abs", np.abs)
NEG = map_operation("neg", np.negative)
EQ = map_operation("eq", np.equal)
NE = map_operation("ne", np.not_equal)
GT = map_operation("gt", np.greater)
GE = map_operation("ge", np.greater_equal)
LT = map_operation("lt", np.less)
LE = map_operation("le", np.less_equal)


def add(a: Operand, b: Operand) -> Tensor:
    """Return ``a + b``; one may be a number."""
    return apply(ADD, (a, b))


def sub(a: Operand, b: Operand) -> Tensor:
    """Return ``a - b``; one may be a number."""
    need_number("sub", a, b)
    return apply(SUB, (a, b))


def mul(a: Operand, b: Operand) -> Tensor:
    """Return ``a * b``; one may be a number."""
    return apply(MUL, (a, b))


def div(a: Operand, b: Operand) -> Tensor:
    """Return ``a / b`` of float tensors; one may be a number."""
    need_float("div", a, b)
    return apply(DIV, (a, b))


def maximum(a: Operand, b: Operand) -> Tensor:
    """Return the larger, element by element; NaN wins."""
    return apply(MAXIMUM, (a, b))


def minimum(a: Operand, b: Operand) -> Tensor:
    """Return the smaller, element by element; NaN wins."""
    return apply(MINIMUM, (a, b))


def exp(a: Tensor) -> Tensor:
    """Return e to the power of a float tensor."""
    need_float("exp", a)
    return apply(EXP, (a,))


def log(a: Tensor) -> Tensor:
    """Return the natural logarithm of a float tensor."""
    need_float("log", a)
    return apply(LOG, (a,))


def sqrt(a: Tensor) -> Tensor:
    """Return the square root of a float tensor."""
    need_float("sqrt", a)
    return apply(SQRT, (a,))


def rsqrt(a: Tensor) -> Tensor:
    """Return one over the square root of a float tensor."""
    need_float("rsqrt", a)
    return apply(RSQRT, (a,))


def sigmoid(a: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-a))`` of a float tensor."""
    need_float("sigmoid", a)
    return apply(SIGMOID, (a,))


def abs(a: Tensor) -> Tensor:
    """Return the absolute value."""
    return apply(ABS, (a,))


def neg(a: Tensor) -> Tensor:
    """Return ``-a``."""
    need_number("neg", a)
    return apply(NEG, (a,))


def eq(a: Operand, b: Operand) -> Tensor:
    """Return ``a == b`` as DT_BOOL; the operator ``==`` compares identity."""
    return apply(EQ, (a, b), DT_BOOL)


def ne(a: Operand, b: Operand) -> Tensor:
    """Return ``a != b`` as DT_BOOL; the operator ``!=`` compares identity."""
    return apply(NE, (a, b), DT_BOOL)


def gt(a: Operand, b: Operand) -> Tensor:
    """Return ``a > b`` as DT_BOOL."""
    return apply(GT, (a, b), DT_BOOL)


def ge(a: Operand, b: Operand) -> Tensor:
    """Return ``a >= b`` as DT_BOOL."""
    return apply(GE, (a, b), DT_BOOL)


def lt(a: Operand, b: Operand) -> Tensor:
    """Return ``a < b`` as DT_BOOL."""
    return apply(LT, (a, b), DT_BOOL)


def le(a: Operand, b: Operand) -> Tensor:
    """Return ``a <= b`` as DT_BOOL."""
    return apply(LE, (a, b), DT_BOOL)


def cast(
    a: Tensor, dtype: DTypeLike, mode: Mode | None = None, *, saturate: bool | None = None
) -> Tensor:
    """Convert to another data type.

    To a lower float: to nearest, ties to even. To an integer: the fraction is cut off, values beyond
    the range give its ends, NaN gives 0. To DT_BOOL: whether it is not 0.

    Args:
        a: The tensor.
        dtype: The data type.
        mode: Another way to round: ``"nearest_even"``, ``"half_away"`` (from 0), ``"floor"``, ``"ceil"`` or ``"trunc"``.
        saturate: True: what is out of range gives the end of the range; False: floats become infinite,
            integers keep their low bits. Default: True from float to integer, else False.
    """
    check_tensor(a, "a")
    target = as_dtype(dtype)
    how, bounded = check_mode(mode), check_saturate(saturate)
    out = new_tensor(a.shape, target, a.valid_shape)
    if is_plain(a.dtype, target, how, bounded):
        submit(CAST, (a,), (out,), (target,))
    else:
        submit(CAST_BY, (a,), (out,), (target, how, bounded))
    return out


def _cast(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    (target,) = attributes
    outputs[0][...] = convert_array(np.asarray(inputs[0]), target)


def _cast_by(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    outputs[0][...] = convert_by(np.asarray(inputs[0]), *attributes)


CAST = Operation("cast", "map", _cast)
CAST_BY = Operation("cast by a mode", "map", _cast_by)


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
        check_operands("where", (a, b))
        choices, dtype = [], DataType.DT_FP32
    tensors = [condition, *choices]
    shape = broadcast_shape(tensors, "where")
    valid = joint_valid(tensors, shape)
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
