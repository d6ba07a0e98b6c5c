"""What an operand of a fused operation is: a value seen through broadcasts, transposes, slices and reshapes."""

from __future__ import annotations

from dataclasses import dataclass

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType
from emu.stablehlo.checks import integer
from emu.stablehlo.compiled.fusion.access import Access, contiguous
from emu.stablehlo.reference.dtypes import constant_array, dtype_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.syntax import ints
from emu.tile.types import FROM_NUMPY, DType


@dataclass(frozen=True, slots=True)
class Source:
    """What a value is made of, without any computation.

    Attributes:
        access: Places of its elements in ``root``, or their values themselves if they count something.
        root: The value that is read; None for counted and constant elements.
        constant: The bits of the element, little-endian, if all are equal and known.
    """

    access: Access
    root: Value | None = None
    constant: bytes | None = None


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Return the shape of a value; None if it is not static or has no elements."""
    type_ = value.type
    if not isinstance(type_, TensorType) or not type_.is_static or 0 in type_.shape:
        return None
    return type_.static_shape


def tile_dtype(value: Value) -> DType | None:
    """Return the tile IR's dtype of a value's elements; None if it has none."""
    if not isinstance(value.type, TensorType):
        return None
    try:
        return FROM_NUMPY.get(dtype_of(value.type.element))
    except EvaluationError:
        return None


class Sources:
    """Sources of the values of a block, found once each."""

    def __init__(self) -> None:
        self._found: dict[Value, Source] = {}

    def of(self, value: Value) -> Source:
        """Return the source of a value of static shape."""
        chain = []
        current = value
        while current not in self._found:
            op = current.defining_op
            chain.append(current)
            if op is None or op.name not in _MOVES:
                break
            current = op.operands[0]
        for each in reversed(chain):
            self._found[each] = self._find(each)
        return self._found[value]

    def _find(self, value: Value) -> Source:
        shape, op = shape_of(value), value.defining_op
        plain = Source(contiguous(shape or ()), value)
        if shape is None or op is None:
            return plain
        if op.name == "stablehlo.iota":
            dimension = integer(op, "iota_dimension")
            steps = tuple((n, int(d == dimension)) for d, n in enumerate(shape))
            return Source(Access(steps))
        if op.name in ("stablehlo.constant", "chlo.constant"):
            return _constant(op, shape) or plain
        if op.name not in _MOVES or op.operands[0] not in self._found:
            return plain
        source = self._found[op.operands[0]]
        if shape_of(op.operands[0]) is None:
            return plain
        access = _MOVES[op.name](op, source.access, shape)
        return plain if access is None else Source(access, source.root, source.constant)


def _constant(op: Operation, shape: tuple[int, ...]) -> Source | None:
    value = op.properties["value"]
    if not isinstance(value, DenseElementsAttr) or tile_dtype(op.result) is None:
        return None
    if not value.splat and shape != () and any(n != 1 for n in shape):
        return None
    element = constant_array(value).reshape(-1)[:1]
    return Source(Access(tuple((n, 0) for n in shape)), None, element.tobytes())


def _broadcast(op: Operation, access: Access, shape: tuple[int, ...]) -> Access | None:
    return access.broadcast(ints(op.properties["broadcast_dimensions"]), shape)


def _transpose(op: Operation, access: Access, shape: tuple[int, ...]) -> Access | None:
    return access.transpose(ints(op.properties["permutation"]))


def _slice(op: Operation, access: Access, shape: tuple[int, ...]) -> Access | None:
    names = ("start_indices", "limit_indices", "strides")
    starts, limits, steps = (ints(op.properties[name]) for name in names)
    return access.slice(starts, limits, steps)


def _reshape(op: Operation, access: Access, shape: tuple[int, ...]) -> Access | None:
    return access.reshape(shape)


_MOVES = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.transpose": _transpose,
    "stablehlo.slice": _slice,
    "stablehlo.reshape": _reshape,
}

FREE = frozenset({*_MOVES, "stablehlo.iota", "stablehlo.constant", "chlo.constant"})
"""Operations that compute nothing: a kernel reads through them."""
