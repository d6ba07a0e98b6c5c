"""What one execution of an operation counts as.

Counts are those of the tile IR as a front end writes it: each element of a tile counts, whatever a compiler makes of it.
docs/counting.md has the same as a table.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeAlias

from emu.tile import ops
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import DType, element_of

DOT, VECTOR, SPECIAL = "dot", "vector", "special"
FLOPS = (DOT, VECTOR, SPECIAL)
"""Units whose operations are flops; those of integers in products are, too."""

INTEGER, COMPARE, SELECT, CAST, ADDRESS = "integer", "compare", "select", "cast", "address"
OTHERS = (INTEGER, COMPARE, SELECT, CAST, ADDRESS)
UNITS = (*FLOPS, *OTHERS)

Work: TypeAlias = "Counter[tuple[str, str]]"
"""How many operations of each unit and dtype."""

_ROUNDING = frozenset({Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT})
_SPECIAL = (ops.FLOAT_UNARY - _ROUNDING) | ops.FLOAT_BINARY
_ARITHMETIC = (ops.UNARY | ops.BINARY) - _SPECIAL

UNCOUNTED = frozenset(
    {Code.CONSTANT, Code.BARRIER, Code.JOIN_TOKENS, Code.AFTER, Code.ASSERT, Code.PRINT}
    | {Code.OBSERVE, Code.MACHINE_WORD, Code.MACHINE_CALL}
    | ops.CONTROL
    | ops.TERMINATORS
)
"""Operations that are none of a tile: constants, control, order and diagnosis."""


def work_of(operation: Operation) -> Work:
    """Return what one execution of an operation counts as; memory operations count apart."""
    code = operation.code
    if code is Code.DOT:
        *batch, m, k = operation.operands[0].shape
        n = operation.operands[1].shape[-1]
        return Counter({(DOT, operation.operands[0].dtype.name): 2 * math.prod(batch) * m * n * k})
    if code in (Code.REDUCE, Code.SCAN):
        return _combinations(operation)
    if code is Code.HISTOGRAM:
        return Counter({(INTEGER, "i32"): lanes_of(operation.operands[0])})
    if code is Code.SORT:
        extent = operation.result.shape[-1]
        rounds = math.ceil(math.log2(extent)) if extent > 1 else 0
        return Counter({(COMPARE, _name(operation.result)): lanes_of(operation.result) * rounds})
    unit, typed = _unit(operation)
    if not unit:
        return Counter()
    count = lanes_of(operation.result) * (2 if code is Code.FMA else 1)
    return Counter({(unit, _name(typed)): count})


def _unit(operation: Operation) -> tuple[str, Value]:
    """Return the unit of an element-wise operation, ``""`` for none, and the value that has its dtype."""
    code = operation.code
    if code in ops.COMPARISONS:
        return COMPARE, operation.operands[0]
    if code not in ops.ELEMENTWISE or code is Code.BITCAST:
        return "", operation.results[0] if operation.results else operation.operands[0]
    result = operation.result
    if code in _SPECIAL:
        return SPECIAL, result
    if code in _ARITHMETIC or code is Code.FMA:
        return VECTOR if _is_float(result) else INTEGER, result
    return {Code.SELECT: SELECT, Code.CAST: CAST, Code.PTR_ADD: ADDRESS}[code], result


def _combinations(operation: Operation) -> Work:
    """Return the work of a reduction or a scan: along the axis each element but the first is combined once."""
    shape = operation.operands[0].shape
    extent = shape[operation.attributes["axis"]]
    times = math.prod(shape) // extent * (extent - 1)
    return Counter({key: n * times for key, n in _all_of(operation.regions[0]).items()})


def _all_of(region: Region) -> Work:
    """Return the work of a region that combines elements; of an IF in it both branches count."""
    work: Work = Counter()
    for operation in region.operations:
        work += work_of(operation) if operation.code not in UNCOUNTED else Counter()
        for nested in operation.regions:
            work += _all_of(nested)
    return work


def lanes_of(value: Value) -> int:
    """Return the number of elements of a value; 1 of a scalar."""
    return math.prod(value.shape)


def _name(value: Value) -> str:
    element = element_of(value.type)
    return element.name if isinstance(element, DType) else "ptr"


def _is_float(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, DType) and element.is_float
