"""Running local ops: the backends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from emu.pypto.dtypes import FP32, Array
from emu.pypto.operation import LocalOp, Rectangle, Values
from emu.pypto.symbolic import Shape, overlaps

if TYPE_CHECKING:
    from emu.pypto.buffer import Buffer

    Place = tuple[Buffer, Shape, Shape]


_WHOLE: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "exp": np.exp,
    "sqrt": np.sqrt,
}
"""Operations on FP32 that NumPy has itself: without ``out`` it takes half the time, memory included, for small operands."""


def run_ops(ops: list[LocalOp]) -> None:
    """Run local ops in order, and empty the list; overflow and division by zero give infinities and NaN silently.

    An op that raises is the last but for those that do not depend on it: what others compute is there.
    """
    failed: list[Place] = []
    error: Exception | None = None
    with np.errstate(all="ignore"):
        ops.reverse()
        while ops:
            # Taken off the list, so that results that nobody else holds go when they have been read.
            op = ops.pop()
            if failed and _depends(op, failed):
                failed += _places(op[2])
                continue
            try:
                run_reference(op)
            except Exception as raised:  # noqa: BLE001 - the first is raised again, when the others have run
                failed += _places(op[2])
                error = error or raised
    if error is not None:
        raise error


def _places(tensors: Iterable[Rectangle | np.generic]) -> list[Place]:
    return [(t.buffer, t.low, t.valid_shape) for t in tensors if not isinstance(t, np.generic)]


def _depends(op: LocalOp, failed: list[Place]) -> bool:
    """Return whether an op touches elements that were not computed."""
    _, inputs, outputs, _ = op
    return any(
        buffer is other and overlaps(low, extent, other_low, other_extent)
        for buffer, low, extent in _places((*inputs, *outputs))
        for other, other_low, other_extent in failed
    )


def run_reference(op: LocalOp) -> None:
    """Run one op by its reference."""
    operation, inputs, outputs, attributes = op
    values: Values
    if operation.kind == "map":
        (out,) = outputs
        valid = out.valid_shape
        values = tuple(
            [
                x
                if isinstance(x, np.generic)
                else x.array
                if x.valid_shape == valid
                else padded(x, out.shape, valid)
                for x in inputs
            ]
        )
        buffer = out.buffer
        if buffer.memory is None and buffer.dtype is FP32:
            whole = _WHOLE.get(operation.name)
            if whole is not None and _make(buffer, whole(*values)):
                return
        operation.reference(values, (out.array,), attributes)
        return
    if operation.reads_all:
        values = tuple([x if isinstance(x, np.generic) else x.dense() for x in inputs])
    else:
        values = tuple([x if isinstance(x, np.generic) else x.array for x in inputs])
    operation.reference(values, tuple([t.array for t in outputs]), attributes)


def run_alone(op: LocalOp) -> None:
    """Run one op as the native backend does where it compiles nothing: the same bits as :func:`run_reference`."""
    operation, inputs, outputs, attributes = op
    if operation.faster is None:
        run_reference(op)
    else:
        operation.faster(inputs, outputs, attributes)


def _make(buffer: Buffer, result: object) -> bool:
    """Make a result the memory of a buffer, if it is as that memory must be; return whether it is."""
    if (
        type(result) is not np.ndarray
        or result.dtype is not FP32
        or result.shape != buffer.shape
        or not result.flags.c_contiguous
    ):
        return False
    buffer.memory = result
    return True


def padded(t: Rectangle, shape: Shape, valid: Shape) -> Array:
    """Return an operand over the valid part of a result, zero where it is not valid."""
    extent = joint_extent(t, shape, valid)
    if extent == t.valid_shape:
        return t.array
    array = np.zeros(extent, t.dtype.np_dtype)
    array[tuple([slice(0, n) for n in t.valid_shape])] = t.array
    return array


def joint_extent(t: Rectangle, shape: Shape, valid: Shape) -> Shape:
    """Return the extent of an operand in the valid part of a result: that of the result, but where it is broadcast."""
    lead = len(shape) - len(t.shape)
    return tuple(
        [n if n != shape[lead + axis] else valid[lead + axis] for axis, n in enumerate(t.shape)]
    )
