"""What ops are made of: nodes of a recipe.

Arithmetic on halves is in FP32, and each op rounds once, as the references do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from emu.pypto.operation import Attributes, Operation
from emu.tile.types import BF16, F16, F32, F64, FROM_NUMPY, I1, DType


class Nodes(Protocol):
    """Makes the nodes of one op."""

    def add(
        self, kind: str, dtype: DType, operands: Sequence[int], is_reduced: bool = False
    ) -> int:
        """Add a node; return its number."""

    def constant(self, value: float, dtype: DType) -> int:
        """Add a number that is part of the kernel; return its number."""

    def reduce(self, word: str, dtype: DType, operand: int) -> int:
        """Add a reduction along the loop's reduced dimension; return its number."""

    @property
    def row_length(self) -> int:
        """Extent of what is reduced."""


Operand: TypeAlias = tuple[int, DType]
"""Number and dtype of the node that an op reads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an op is besides its operands.

    Attributes:
        dtype: dtype of the result.
        is_reduced: Whether it has an element per row.
        attributes: Those of the op.
    """

    dtype: DType
    is_reduced: bool
    attributes: Attributes


Lower: TypeAlias = Callable[[Nodes, Sequence[Operand], Facts], int]
"""Makes the nodes of an op."""


def widened(dtype: DType) -> DType:
    """Return the dtype of arithmetic."""
    return F32 if dtype in (F16, BF16) else dtype


def _cast(nodes: Nodes, operand: Operand, dtype: DType, is_reduced: bool) -> int:
    number, source = operand
    return number if source == dtype else nodes.add("pypto.cast", dtype, [number], is_reduced)


def _widen(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> tuple[DType, list[int]]:
    """Return the dtype of arithmetic on operands, and their numbers in it."""
    dtype = widened(operands[0][1])
    return dtype, [_cast(nodes, x, dtype, facts.is_reduced) for x in operands]


def _arithmetic(kind: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        dtype, numbers = _widen(nodes, operands, facts)
        found = nodes.add(kind, dtype, numbers, facts.is_reduced)
        return _cast(nodes, (found, dtype), facts.dtype, facts.is_reduced)

    return lower


def _comparison(kind: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        _, numbers = _widen(nodes, operands, facts)
        return nodes.add(kind, I1, numbers, facts.is_reduced)

    return lower


def _rounding(kind: str) -> Lower:
    """Round floats; integers are whole."""

    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        if not operands[0][1].is_float:
            return operands[0][0]
        return _arithmetic(kind)(nodes, operands, facts)

    return lower


def _convert(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    return _cast(nodes, operands[0], facts.dtype, facts.is_reduced)


def _where(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    condition = _cast(nodes, operands[0], I1, facts.is_reduced)
    numbers = [_cast(nodes, x, facts.dtype, facts.is_reduced) for x in operands[1:]]
    return nodes.add("pypto.where", facts.dtype, [condition, *numbers], facts.is_reduced)


def _relu(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    zero = nodes.constant(0, dtype)
    found = nodes.add("pypto.maximum", dtype, [x, zero], facts.is_reduced)
    if dtype.is_float:
        # The larger of -0 and 0 may be either; the sum is 0.
        found = nodes.add("pypto.add", dtype, [found, zero], facts.is_reduced)
    return _cast(nodes, (found, dtype), facts.dtype, facts.is_reduced)


def _clip(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x, low, high) = _widen(nodes, operands, facts)
    found = nodes.add("pypto.maximum", dtype, [x, low], facts.is_reduced)
    found = nodes.add("pypto.minimum", dtype, [found, high], facts.is_reduced)
    return _cast(nodes, (found, dtype), facts.dtype, facts.is_reduced)


def _is_nan(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    _, (x,) = _widen(nodes, operands, facts)
    return nodes.add("pypto.ne", I1, [x, x], facts.is_reduced)


def _beside_infinity(kind: str) -> Lower:
    """Compare magnitudes with infinity."""

    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        dtype, (x,) = _widen(nodes, operands, facts)
        x = nodes.add("pypto.abs", dtype, [x], facts.is_reduced)
        return nodes.add(kind, I1, [x, nodes.constant(math.inf, dtype)], facts.is_reduced)

    return lower


def _logic(kind: str) -> Lower:
    """Combine whether operands are not 0."""

    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        flags = [_cast(nodes, x, I1, facts.is_reduced) for x in operands]
        return nodes.add(kind, I1, flags, facts.is_reduced)

    return lower


def _bits(kind: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        numbers = [number for number, _ in operands]
        return nodes.add(kind, facts.dtype, numbers, facts.is_reduced)

    return lower


def _sign(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    zero, at_rows = nodes.constant(0, dtype), facts.is_reduced
    # Of NaN it is NaN, and of -0 it is 0.
    found = nodes.add("pypto.add", dtype, [x, zero], at_rows)
    above = nodes.add("pypto.gt", I1, [x, zero], at_rows)
    found = nodes.add("pypto.where", dtype, [above, nodes.constant(1, dtype), found], at_rows)
    if dtype.is_float or dtype.limits[0] < 0:
        below = nodes.add("pypto.lt", I1, [x, zero], at_rows)
        found = nodes.add("pypto.where", dtype, [below, nodes.constant(-1, dtype), found], at_rows)
    return _cast(nodes, (found, dtype), facts.dtype, at_rows)


def _without_minus_infinity(
    nodes: Nodes, x: int, found: int, dtype: DType, is_reduced: bool
) -> int:
    """Return what was found, but -0, the limit, where ``x`` is -inf."""
    lowest = nodes.constant(-math.inf, dtype)
    is_lowest = nodes.add("pypto.eq", I1, [x, lowest], is_reduced)
    zero = nodes.constant(-0.0, dtype)
    return nodes.add("pypto.where", dtype, [is_lowest, zero, found], is_reduced)


def _gelu(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    """Compute in FP64, as the reference does: of what is far below 0, ``1 + erf`` leaves little."""
    dtype, at_rows = widened(operands[0][1]), facts.is_reduced
    x = _cast(nodes, operands[0], F64, at_rows)

    def add(name: str, a: int, b: int) -> int:
        return nodes.add(f"pypto.{name}", F64, [a, b], at_rows)

    root, half, one = (nodes.constant(value, F64) for value in (math.sqrt(2), 0.5, 1))
    e = nodes.add("pypto.erf", F64, [add("div", x, root)], at_rows)
    found = add("mul", add("mul", half, x), add("add", one, e))
    found = _without_minus_infinity(nodes, x, found, F64, at_rows)
    found = _cast(nodes, (found, F64), dtype, at_rows)
    return _cast(nodes, (found, dtype), facts.dtype, at_rows)


def _gelu_tanh(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    at_rows = facts.is_reduced

    def add(name: str, a: int, b: int) -> int:
        return nodes.add(f"pypto.{name}", dtype, [a, b], at_rows)

    numbers = (math.sqrt(2 / math.pi), 0.044715, 0.5, 1)
    root, part, half, one = (nodes.constant(value, dtype) for value in numbers)
    cube = add("mul", add("mul", add("mul", part, x), x), x)
    inner = add("mul", root, add("add", x, cube))
    t = nodes.add("pypto.tanh", dtype, [inner], at_rows)
    found = add("mul", add("mul", half, x), add("add", one, t))
    found = _without_minus_infinity(nodes, x, found, dtype, at_rows)
    return _cast(nodes, (found, dtype), facts.dtype, at_rows)


def _reciprocal(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    found = nodes.add("pypto.div", dtype, [nodes.constant(1, dtype), x], facts.is_reduced)
    return _cast(nodes, (found, dtype), facts.dtype, facts.is_reduced)


def _silu(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    e = nodes.add("pypto.neg", dtype, [x], facts.is_reduced)
    e = nodes.add("pypto.exp", dtype, [e], facts.is_reduced)
    e = nodes.add("pypto.add", dtype, [nodes.constant(1, dtype), e], facts.is_reduced)
    found = nodes.add("pypto.div", dtype, [x, e], facts.is_reduced)
    return _cast(nodes, (found, dtype), facts.dtype, facts.is_reduced)


def _reduction(word: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        dtype = widened(operands[0][1])
        total = nodes.reduce(word, dtype, _cast(nodes, operands[0], dtype, False))
        return _cast(nodes, (total, dtype), facts.dtype, True)

    return lower


def _shifted(nodes: Nodes, x: int, dtype: DType) -> tuple[int, int, int]:
    """Return rows less their largest element, the exponential of that, and its sum."""
    largest = nodes.reduce("pypto.maximum", dtype, x)
    shifted = nodes.add("pypto.sub", dtype, [x, largest])
    e = nodes.add("pypto.exp", dtype, [shifted])
    return shifted, e, nodes.reduce("pypto.add", dtype, e)


def _softmax(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    _, e, total = _shifted(nodes, x, dtype)
    return _cast(nodes, (nodes.add("pypto.div", dtype, [e, total]), dtype), facts.dtype, False)


def _log_softmax(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, (x,) = _widen(nodes, operands, facts)
    shifted, _, total = _shifted(nodes, x, dtype)
    log = nodes.add("pypto.log", dtype, [total], True)
    return _cast(nodes, (nodes.add("pypto.sub", dtype, [shifted, log]), dtype), facts.dtype, False)


def _mean(nodes: Nodes, x: int, dtype: DType) -> int:
    """Return the mean of rows."""
    total = nodes.reduce("pypto.add", dtype, x)
    return nodes.add("pypto.div", dtype, [total, nodes.constant(nodes.row_length, dtype)], True)


def _mean_of_rows(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype = widened(operands[0][1])
    found = _mean(nodes, _cast(nodes, operands[0], dtype, False), dtype)
    return _cast(nodes, (found, dtype), facts.dtype, True)


def _variance(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
    dtype, correction = widened(operands[0][1]), facts.attributes[2]
    x = _cast(nodes, operands[0], dtype, False)
    x = nodes.add("pypto.sub", dtype, [x, _mean(nodes, x, dtype)])
    total = nodes.reduce("pypto.add", dtype, nodes.add("pypto.mul", dtype, [x, x]))
    count = nodes.constant(max(nodes.row_length - correction, 0), dtype)
    found = nodes.add("pypto.div", dtype, [total, count], True)
    return _cast(nodes, (found, dtype), facts.dtype, True)


def _norm(is_centred: bool) -> Lower:
    """Divide rows by the root of their mean square, then apply weight and bias."""

    def lower(nodes: Nodes, operands: Sequence[Operand], facts: Facts) -> int:
        _, eps, has_weight, _ = facts.attributes
        dtype, (x, *rest) = _widen(nodes, operands, facts)
        if is_centred:
            x = nodes.add("pypto.sub", dtype, [x, _mean(nodes, x, dtype)])
        square = _mean(nodes, nodes.add("pypto.mul", dtype, [x, x]), dtype)
        square = nodes.add("pypto.add", dtype, [square, nodes.constant(eps, dtype)], True)
        found = nodes.add("pypto.div", dtype, [x, nodes.add("pypto.sqrt", dtype, [square], True)])
        if has_weight:
            found = nodes.add("pypto.mul", dtype, [found, rest.pop(0)])
        if rest:
            found = nodes.add("pypto.add", dtype, [found, rest[0]])
        return _cast(nodes, (found, dtype), facts.dtype, False)

    return lower


_ARITHMETIC = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "abs", "neg"),
    *("exp", "log", "sqrt", "rsqrt", "sigmoid", "sin", "cos", "tanh", "erf", "expm1", "log1p"),
)

_BITS = ("and", "or", "xor", "not", "left_shift", "right_shift")

LOWERINGS: dict[str, Lower] = {
    **{name: _arithmetic(f"pypto.{name}") for name in _ARITHMETIC},
    **{name: _comparison(f"pypto.{name}") for name in ("eq", "ne", "gt", "ge", "lt", "le")},
    **{name: _rounding(f"pypto.{name}") for name in ("floor", "ceil", "round", "trunc")},
    **{f"logical_{name}": _logic(f"pypto.{name}") for name in ("and", "or", "xor", "not")},
    **{f"bitwise_{name}": _bits(f"pypto.{name}") for name in _BITS},
    "assemble": _convert,
    "cast": _convert,
    "clip": _clip,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "isfinite": _beside_infinity("pypto.lt"),
    "isinf": _beside_infinity("pypto.eq"),
    "isnan": _is_nan,
    "reciprocal": _reciprocal,
    "relu": _relu,
    "sign": _sign,
    "silu": _silu,
    "where": _where,
    "mean": _mean_of_rows,
    "var": _variance,
    "sum": _reduction("pypto.add"),
    "amax": _reduction("pypto.maximum"),
    "amin": _reduction("pypto.minimum"),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _norm(True),
    "rms_norm": _norm(False),
}
"""Function per name of an operation."""

NEEDS_ROWS = frozenset({"var"})
"""Reductions that look at elements again when they know something of the row."""

_BOOLS = frozenset(
    {"assemble", "cast", "where"}
    | {f"logical_{name}" for name in ("and", "or", "xor", "not")}
    | {f"bitwise_{name}" for name in ("and", "or", "xor", "not")}
)
"""Operations whose operands may be DT_BOOL."""


def tile_dtype(dtype: np.dtype[np.generic]) -> DType:
    """Return the tile IR's dtype of NumPy's."""
    return FROM_NUMPY[dtype]


def can_lower(operation: Operation, sources: Sequence[DType], result: DType) -> bool:
    """Return whether kernels compute an operation of these dtypes as its reference does."""
    if operation.name not in LOWERINGS:
        return False
    if I1 in sources and operation.name not in _BOOLS:
        return False
    if operation.name == "cast":
        # Integers become halves by way of FP32 here, which would round twice.
        return sources[0].is_float or sources[0] == I1 or result not in (F16, BF16)
    return True
