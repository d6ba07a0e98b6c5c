"""The types that operands and attributes imply, and StableHLO's objections.

A rule takes an operation whose operands, regions and attributes are there, and
gives the types of its results, with None for a dimension that is not known. It
raises `Invalid` where the operation makes no sense; the message is StableHLO's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from emu.mlir.attributes import DenseElementsAttr, IntegerAttr
from emu.mlir.ir import Operation
from emu.mlir.types import ComplexType, IntegerType, TensorType, TupleType, Type
from emu.stablehlo.attributes import DotDimensionNumbers
from emu.stablehlo.syntax import ints

__all__ = [
    "RULES",
    "Invalid",
    "Shape",
    "compatible",
    "compatible_shapes",
    "dot_general_shape",
    "dot_shape",
    "integer",
    "listed",
    "same",
    "tensor",
]

Shape = tuple[int | None, ...]
_BOOL = IntegerType(1)


class Invalid(Exception):
    """The operation makes no sense; the message says why."""


def tensor(type_: Type) -> TensorType:
    """A type that has to be a ranked tensor."""
    if not isinstance(type_, TensorType):
        raise Invalid(f"expected a ranked tensor, but got '{type_}'")
    return type_


def integer(op: Operation, name: str) -> int:
    """An integer attribute's value."""
    value = op.properties[name]
    if not isinstance(value, IntegerAttr):
        raise Invalid(f"attribute '{name}' failed to satisfy constraint: integer attribute")
    return value.value


def same(left: int | None, right: int | None) -> bool:
    """Whether two sizes may be the same one."""
    return left is None or right is None or left == right


def compatible_shapes(left: Sequence[int | None], right: Sequence[int | None]) -> bool:
    """Whether two shapes may be the same one."""
    return len(left) == len(right) and all(map(same, left, right))


def compatible(left: Type, right: Type) -> bool:
    """Whether two types may be the same one: equal but for unknown sizes.

    Elements of quantized types are not looked into.
    """
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        elements = left.element == right.element or "!quant" in f"{left}{right}"
        return elements and compatible_shapes(left.shape, right.shape)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        pairs = zip(left.elements, right.elements, strict=False)
        return len(left.elements) == len(right.elements) and all(compatible(a, b) for a, b in pairs)
    return left == right


def _operand(op: Operation, index: int = 0) -> TensorType:
    return tensor(op.operands[index].type)


def _text(values: Sequence[int | None]) -> str:
    return ", ".join("?" if v is None else str(v) for v in values)


# Element by element


def _real(type_: Type) -> Type:
    return type_.element if isinstance(type_, ComplexType) else type_


def _parts(op: Operation) -> list[Type]:
    source = _operand(op)
    return [TensorType(source.shape, _real(source.element))]


def _predicate(op: Operation) -> list[Type]:
    return [TensorType(_operand(op).shape, _BOOL)]


def _complex(op: Operation) -> list[Type]:
    source = _operand(op)
    return [TensorType(source.shape, ComplexType(source.element))]


def _select(op: Operation) -> list[Type]:
    predicate, true, false = (_operand(op, i) for i in range(3))
    if not compatible(true, false):
        raise Invalid("requires compatible types for non-predicate operands")
    if predicate.rank and not compatible_shapes(predicate.shape, true.shape):
        raise Invalid("requires the same shape for all operands")
    shape = tuple(b if a is None else a for a, b in zip(true.shape, false.shape, strict=True))
    return [TensorType(shape, true.element)]


def _clamp(op: Operation) -> list[Type]:
    source = _operand(op, 1)
    for name, index in (("min", 0), ("max", 2)):
        limit = _operand(op, index)
        if limit.rank and not compatible_shapes(limit.shape, source.shape):
            raise Invalid(
                f"{name} shape [{_text(limit.shape)}] is not scalar and is not compatible to "
                f"operand shape [{_text(source.shape)}]"
            )
    return [source]


def _unchanged(op: Operation) -> list[Type]:
    return [_operand(op)]


# Movement


def _constant(op: Operation) -> list[Type]:
    value = op.properties["value"]
    return [value.type if isinstance(value, DenseElementsAttr) else op.result.type]


def _transpose(op: Operation) -> list[Type]:
    source, permutation = _operand(op), ints(op.properties["permutation"])
    if len(permutation) != source.rank:
        raise Invalid(
            f"TransposeOp operand rank {source.rank} does not match permutation size "
            f"{len(permutation)}"
        )
    if sorted(permutation) != list(range(source.rank)):
        raise Invalid(
            f"attribute permutation must be a permutation of [{_text(range(source.rank))}] "
            f"but got {_text(permutation)}"
        )
    return [TensorType(tuple(source.shape[d] for d in permutation), source.element)]


def _broadcast(op: Operation) -> list[Type]:
    source, sizes = _operand(op), ints(op.properties["broadcast_sizes"])
    if negative := [size for size in sizes if size < 0]:
        raise Invalid(f"Broadcast with negative dimension size {negative[0]}")
    return [TensorType((*sizes, *source.shape), source.element)]


def _concatenate(op: Operation) -> list[Type]:
    first, dimension = _operand(op), integer(op, "dimension")
    if not first.rank:
        raise Invalid("rank-0 values cannot be concatenated")
    if dimension >= first.rank:
        raise Invalid(f"dimension {dimension} is out-of-bounds for input rank {first.rank}")
    shape = list(first.shape)
    total: int | None = 0
    for index in range(len(op.operands)):
        other = _operand(op, index)
        if other.rank != first.rank:
            raise Invalid(f"operands (0) and ({index}) do not match rank")
        for d, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            if d != dimension and not same(a, b):
                raise Invalid(
                    f"shapes of operand (0) and ({index}) are not compatible at non-concat index "
                    f"{d}: ({_text(first.shape)}) != ({_text(other.shape)})"
                )
            if shape[d] is None:
                shape[d] = b
        size = other.shape[dimension]
        total = None if total is None or size is None else total + size
    shape[dimension] = total
    return [TensorType(tuple(shape), first.element)]


def _slice(op: Operation) -> list[Type]:
    source = _operand(op)
    starts, limits, strides = (
        ints(op.properties[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    if len(starts) != source.rank:
        raise Invalid(
            f"the number of elements in start_indices ({len(starts)}) does not match the rank of "
            f"the operand ({source.rank})"
        )
    shape = []
    for d, size in enumerate(source.shape):
        start, limit, stride = starts[d], limits[d], strides[d]
        if start < 0:
            raise Invalid(f"negative start index {start} in dimension {d}")
        if size is not None and limit > size:
            raise Invalid(
                f"limit index {limit} is larger than dimension size {size} in dimension {d}"
            )
        if start > limit:
            raise Invalid(
                f"start index {start} is larger than limit index {limit} in dimension {d}"
            )
        if stride <= 0:
            raise Invalid(f"stride must be positive but got {stride} in dimension {d}")
        shape.append(-((start - limit) // stride))
    return [TensorType(tuple(shape), source.element)]


def _pad(op: Operation) -> list[Type]:
    source = _operand(op)
    low, high, interior = (
        ints(op.properties[name])
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if len(low) != source.rank:
        raise Invalid(
            f"edge_padding_low length ({len(low)}) must match operand rank ({source.rank})"
        )
    shape: list[int | None] = []
    for d, size in enumerate(source.shape):
        if interior[d] < 0:
            raise Invalid(f"Interior padding cannot be negative: {interior[d]}")
        if size is None:
            shape.append(None)
            continue
        padded = low[d] + high[d] + size + max(size - 1, 0) * interior[d]
        if padded < 0:
            raise Invalid(f"Padding result in negative size for dimension {d}")
        shape.append(padded)
    return [TensorType(tuple(shape), source.element)]


def _dynamic_slice(op: Operation) -> list[Type]:
    source, sizes = _operand(op), ints(op.properties["slice_sizes"])
    starts = len(op.operands) - 1
    if len(sizes) != starts:
        raise Invalid(
            f"has mismatched number of slice sizes ({len(sizes)}) and number of start indices "
            f"({starts})"
        )
    if starts != source.rank:
        raise Invalid(
            f"has mismatched number of start indices ({starts}) and the rank of operand "
            f"({source.rank})"
        )
    for d, (wanted, size) in enumerate(zip(sizes, source.shape, strict=True)):
        if wanted < 0:
            raise Invalid(f"has negative size index to dynamic slice: {wanted}")
        if size is not None and wanted > size:
            raise Invalid(
                f"has slice size {wanted} greater than dimension size {size} in dimension {d} of "
                "operand"
            )
    return [TensorType(tuple(sizes), source.element)]


def _dynamic_update_slice(op: Operation) -> list[Type]:
    source, update = _operand(op), _operand(op, 1)
    if update.rank != source.rank:
        raise Invalid(f"update rank does not match operand rank: {update.rank} vs {source.rank}.")
    starts = len(op.operands) - 2
    if starts != source.rank:
        raise Invalid(
            f"expects number of start_indices to match operand rank: {starts} vs {source.rank}."
        )
    for left, right in pairwise(v.type for v in op.operands[2:]):
        if left != right:
            raise Invalid("start indices must have same element type")
    for d, (size, whole) in enumerate(zip(update.shape, source.shape, strict=True)):
        if size is not None and whole is not None and size > whole:
            raise Invalid(
                f"expects size at dimension {d} of update to be in range [0, {whole}]. Got: {size}."
            )
    return [source]


# Products


def dot_general_shape(op: Operation) -> Shape:
    """The shape of a ``dot_general``."""
    left, right = _operand(op), _operand(op, 1)
    numbers = op.properties["dot_dimension_numbers"]
    if not isinstance(numbers, DotDimensionNumbers):
        raise Invalid("attribute 'dot_dimension_numbers' failed to satisfy constraint")
    batch, contract = numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions
    other, other_contract = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    if len(batch) != len(other):
        raise Invalid("lhs and rhs should have the same number of batching dimensions")
    if len(contract) != len(other_contract):
        raise Invalid("lhs and rhs should have the same number of contracting dimensions")
    _distinct("lhs", batch, contract)
    _distinct("rhs", other, other_contract)
    _in_range("lhs_batching_dimensions", batch, left.rank)
    _in_range("lhs_contracting_dimensions", contract, left.rank)
    _in_range("rhs_batching_dimensions", other, right.rank)
    _in_range("rhs_contracting_dimensions", other_contract, right.rank)
    if not all(same(left.shape[a], right.shape[b]) for a, b in zip(batch, other, strict=True)):
        raise Invalid("batching dimension sizes must match for lhs/rhs")
    pairs = zip(contract, other_contract, strict=True)
    if not all(same(left.shape[a], right.shape[b]) for a, b in pairs):
        raise Invalid("contracting dimension sizes must match for lhs/rhs")
    return (
        *(left.shape[d] for d in batch),
        *(s for d, s in enumerate(left.shape) if d not in batch + contract),
        *(s for d, s in enumerate(right.shape) if d not in other + other_contract),
    )


def _distinct(side: str, batch: Sequence[int], contract: Sequence[int]) -> None:
    seen: set[int] = set()
    for d in (*batch, *contract):
        if d in seen:
            raise Invalid(
                f"has duplicated dimension from {side}_batching_dimensions and "
                f"{side}_contracting_dimensions: {d}"
            )
        seen.add(d)


def _in_range(name: str, dimensions: Sequence[int], rank: int) -> None:
    for d in dimensions:
        if not 0 <= d < rank:
            raise Invalid(f"{name} value: {d} is out of range: [0, {rank})")


def dot_shape(op: Operation) -> Shape:
    """The shape of a ``dot``."""
    left, right = _operand(op).shape, _operand(op, 1).shape
    if len(left) not in (1, 2) or len(right) not in (1, 2) or not same(left[-1], right[0]):
        raise Invalid("expected both lhs/rhs ranks to be either 1 or 2")
    return (*left[:-1], *right[1:])


def _cholesky(op: Operation) -> list[Type]:
    source = _operand(op)
    shape = _text(source.shape)
    if source.rank < 2:
        raise Invalid(f"argument 'a' must have rank >= 2, got shape {shape}.")
    if not same(source.shape[-2], source.shape[-1]):
        raise Invalid(f"minor dimensions of 'a' must have equal size, got shape {shape}.")
    return [source]


# Others


def _reduce(op: Operation) -> list[Type]:
    half = len(op.operands) // 2
    inputs = [_operand(op, i) for i in range(half)]
    dimensions = ints(op.properties["dimensions"])
    shape = tuple(s for d, s in enumerate(inputs[0].shape) if d not in dimensions)
    last = op.body().last
    if last is None or len(last.operands) != half:
        count = 0 if last is None else len(last.operands)
        raise Invalid(
            f"Reduction-region here must produce {half} tensors, but produces {count} instead"
        )
    return [TensorType(shape, tensor(value.type).element) for value in last.operands]


def _get_tuple_element(op: Operation) -> list[Type]:
    source, index = op.operands[0].type, integer(op, "index")
    if not isinstance(source, TupleType):
        raise Invalid(f"expected a tuple, but got '{source}'")
    if index >= len(source.elements):
        raise Invalid(f"index {index} is out of bounds of operand with size {len(source.elements)}")
    return [source.elements[index]]


def _tuple(op: Operation) -> list[Type]:
    return [TupleType(tuple(value.type for value in op.operands))]


def _conditional(op: Operation) -> list[Type]:
    if not op.regions:
        raise Invalid("expect at least one branch")
    if rank := _operand(op).rank:
        raise Invalid(f"operand should be rank 0 tensor but got rank {rank}")
    results: list[list[Type]] = []
    for index, region in enumerate(op.regions):
        last = region.blocks[0].last if region.blocks else None
        if last is None:
            raise Invalid("expect non-empty region")
        if count := len(region.blocks[0].arguments):
            raise Invalid(f"branch {index} must have 0 arguments, but found {count}")
        types = [value.type for value in last.operands]
        results.append(types)
        first = results[0]
        if len(first) != len(types) or not all(map(compatible, first, types)):
            raise Invalid(
                f"branch 0 and branch {index} have mismatched return types: {listed(first)} vs "
                f"{listed(types)}"
            )
    return results[0]


def listed(types: Sequence[Type]) -> str:
    """Types in quotes."""
    return ", ".join(f"'{type_}'" for type_ in types)


def _all_to_all(op: Operation) -> list[Type]:
    split, concat = integer(op, "split_dimension"), integer(op, "concat_dimension")
    count = integer(op, "split_count")
    results: list[Type] = []
    for index in range(len(op.operands)):
        source = _operand(op, index)
        for name, d in (("split_dimension", split), ("concat_dimension", concat)):
            if d >= source.rank:
                raise Invalid(f"AllToAll {name} {d} is out-of-bounds for input rank {source.rank}")
        shape = list(source.shape)
        size = shape[split]
        if size is not None:
            if size % count:
                raise Invalid(
                    f"split dimension has size {size}, expected to be a multiple of split_count "
                    f"{count}"
                )
            shape[split] = size // count
        size = shape[concat]
        shape[concat] = None if size is None else size * count
        results.append(TensorType(tuple(shape), source.element))
    return results


RULES: dict[str, Callable[[Operation], list[Type]]] = {
    "abs": _parts,
    "real": _parts,
    "imag": _parts,
    "is_finite": _predicate,
    "compare": _predicate,
    "complex": _complex,
    "select": _select,
    "clamp": _clamp,
    "constant": _constant,
    "transpose": _transpose,
    "reverse": _unchanged,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "cholesky": _cholesky,
    "reduce": _reduce,
    "get_tuple_element": _get_tuple_element,
    "tuple": _tuple,
    "all_to_all": _all_to_all,
    "case": _conditional,
    "if": _conditional,
    "collective_permute": _unchanged,
    "collective_broadcast": _unchanged,
}
"""By name without ``stablehlo.``: the types that the results have to have."""
