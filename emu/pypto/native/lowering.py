"""What ops are made of: nodes of a recipe.

Arithmetic on halves is in FP32, and each op rounds once, as the references do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from emu.pypto.operation import Operation
from emu.tile.types import BF16, F16, F32, FROM_NUMPY, I1, DType


class Nodes(Protocol):
    """Makes the nodes of one op."""

    def add(
        self, kind: str, dtype: DType, operands: Sequence[int], is_reduced: bool = False
    ) -> int:
        """Add a node; return its number."""

    def reduce(self, word: str, dtype: DType, operand: int) -> int:
        """Add a reduction along the loop's reduced dimension; return its number."""


Operand: TypeAlias = tuple[int, DType]
"""Number and dtype of the node that an op reads."""

Lower: TypeAlias = Callable[[Nodes, Sequence[Operand], DType, bool], int]
"""Makes the nodes of an op: operands, dtype of the result, whether it has an element per row."""


def widened(dtype: DType) -> DType:
    """Return the dtype of arithmetic."""
    return F32 if dtype in (F16, BF16) else dtype


def _cast(nodes: Nodes, operand: Operand, dtype: DType, is_reduced: bool) -> int:
    number, source = operand
    return number if source == dtype else nodes.add("pypto.cast", dtype, [number], is_reduced)


def _arithmetic(kind: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
        dtype = widened(operands[0][1])
        numbers = [_cast(nodes, x, dtype, is_reduced) for x in operands]
        return _cast(
            nodes, (nodes.add(kind, dtype, numbers, is_reduced), dtype), result, is_reduced
        )

    return lower


def _comparison(kind: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
        dtype = widened(operands[0][1])
        numbers = [_cast(nodes, x, dtype, is_reduced) for x in operands]
        return nodes.add(kind, I1, numbers, is_reduced)

    return lower


def _convert(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
    return _cast(nodes, operands[0], result, is_reduced)


def _where(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
    condition = _cast(nodes, operands[0], I1, is_reduced)
    numbers = [_cast(nodes, x, result, is_reduced) for x in operands[1:]]
    return nodes.add("pypto.where", result, [condition, *numbers], is_reduced)


def _reduction(word: str) -> Lower:
    def lower(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
        dtype = widened(operands[0][1])
        total = nodes.reduce(word, dtype, _cast(nodes, operands[0], dtype, False))
        return _cast(nodes, (total, dtype), result, True)

    return lower


def _softmax(nodes: Nodes, operands: Sequence[Operand], result: DType, is_reduced: bool) -> int:
    dtype = widened(operands[0][1])
    x = _cast(nodes, operands[0], dtype, False)
    largest = nodes.reduce("pypto.maximum", dtype, x)
    e = nodes.add("pypto.exp", dtype, [nodes.add("pypto.sub", dtype, [x, largest])])
    total = nodes.reduce("pypto.add", dtype, e)
    return _cast(nodes, (nodes.add("pypto.div", dtype, [e, total]), dtype), result, False)


_ARITHMETIC = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "abs", "neg"),
    *("exp", "log", "sqrt", "rsqrt", "sigmoid"),
)

LOWERINGS: dict[str, Lower] = {
    **{name: _arithmetic(f"pypto.{name}") for name in _ARITHMETIC},
    **{name: _comparison(f"pypto.{name}") for name in ("eq", "ne", "gt", "ge", "lt", "le")},
    "assemble": _convert,
    "cast": _convert,
    "where": _where,
    "sum": _reduction("pypto.add"),
    "amax": _reduction("pypto.maximum"),
    "amin": _reduction("pypto.minimum"),
    "softmax": _softmax,
}
"""Function per name of an operation."""

_BOOLS = frozenset({"assemble", "cast", "where"})
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
