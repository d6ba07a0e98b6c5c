"""Rules of gather and scatter.

Both relate an *input* (the tensor read or written), *indices*, and *slices* (the
gathered tensor, or the updates). A dimension of the slices is either an offset
into a window of the input, or it numbers the windows and comes from the indices;
in the second case it may also be a batch dimension of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.ir import BlockArgument, Operation, Value
from emu.mlir.types import IntegerType, TensorType
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction
from emu.sdy.rules.reading import attribute, shape
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers


@dataclass(frozen=True, slots=True)
class _Adder:
    """A function that adds a factor to a dimension of input, indices and slices.

    Attributes:
        builder: The builder of the rule.
        inputs: Number of inputs of a scatter; 0 for a gather.
    """

    builder: RuleBuilder
    inputs: int = 0

    def __call__(
        self,
        input_dim: int | None,
        indices_dim: int | None,
        slices_dim: int | None,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> None:
        operands, results = [input_dim, indices_dim], [slices_dim]
        if self.inputs:
            count = self.inputs
            operands = [*[input_dim] * count, indices_dim, *[slices_dim] * count]
            results = [input_dim] * count
        self.builder.add(operands, results, size, kind, blocked=blocked)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Dimensions of a gather or scatter, under one set of names.

    Attributes:
        input: Shape of the input.
        indices: Shape of the indices.
        slices: Shape of the slices.
        offset_dims: Dimensions of the slices inside windows.
        collapsed_dims: Dimensions of the input of which a window has one
            element, and which the slices do not have.
        input_batching_dims: Batch dimensions of the input.
        indices_batching_dims: The dimensions of the indices they go with.
        index_vector_dim: The dimension of the indices that holds coordinates.
    """

    input: tuple[int, ...]
    indices: tuple[int, ...]
    slices: tuple[int, ...]
    offset_dims: Sequence[int]
    collapsed_dims: Sequence[int]
    input_batching_dims: Sequence[int]
    indices_batching_dims: Sequence[int]
    index_vector_dim: int

    def window_dims(self) -> list[int]:
        """Return the dimensions of the input that offsets refer to, in their order."""
        left_out = {*self.collapsed_dims, *self.input_batching_dims}
        return [dim for dim in range(len(self.input)) if dim not in left_out]

    def batch(self, position: int) -> tuple[int | None, int]:
        """Return the dimensions of input and indices that match a batch dimension of the slices."""
        indices_dim = position if position < self.index_vector_dim else position + 1
        pairs = dict(zip(self.indices_batching_dims, self.input_batching_dims, strict=True))
        return pairs.get(indices_dim), indices_dim


def _add_factors(windows: _Windows, add: _Adder, implicit_batch: FactorType) -> None:
    """Add all factors.

    Args:
        windows: The dimensions.
        add: Adds one factor.
        implicit_batch: Kind of the batch dimensions that the input lacks.
    """
    window_dims = iter(windows.window_dims())
    position = 0
    for slices_dim, size in enumerate(windows.slices):
        if slices_dim in windows.offset_dims:
            input_dim = next(window_dims)
            _add_offset(add, input_dim, windows.input[input_dim], slices_dim, size)
        else:
            batch_dim, indices_dim = windows.batch(position)
            kind = implicit_batch if batch_dim is None else FactorType.PASS_THROUGH
            add(batch_dim, indices_dim, slices_dim, size, kind)
            position += 1
    for dim in windows.collapsed_dims:
        size = windows.input[dim]
        if add.inputs:
            kind = FactorType.PASS_THROUGH
        elif size == 1:
            kind = FactorType.NEED_REPLICATION
        else:
            # Each shard gathers its own elements; the sum of the results is the whole.
            kind = FactorType.REDUCTION
        add(dim, None, None, size, kind)
    vector_dim = windows.index_vector_dim
    if vector_dim < len(windows.indices):
        add(None, vector_dim, None, windows.indices[vector_dim], FactorType.NEED_REPLICATION)


def _add_offset(add: _Adder, input_dim: int, input_size: int, slices_dim: int, size: int) -> None:
    """Add the factors of a dimension inside windows."""
    if input_size == size:
        add(input_dim, None, slices_dim, input_size)
    elif add.inputs:
        add(input_dim, None, None, input_size, FactorType.NEED_REPLICATION)
        add(None, None, slices_dim, size, FactorType.NEED_REPLICATION)
    elif size == 1:
        add(input_dim, None, None, input_size, FactorType.REDUCTION)
        add(None, None, slices_dim, size, FactorType.NEED_REPLICATION)
    else:
        add(input_dim, None, slices_dim, input_size, FactorType.NEED_REPLICATION, blocked=True)


def _gather(op: Operation) -> OpShardingRule:
    numbers = attribute(op, "dimension_numbers", GatherDimensionNumbers)
    builder = RuleBuilder.of(op)
    windows = _Windows(
        shape(op.operands[0]),
        shape(op.operands[1]),
        shape(op.results[0]),
        numbers.offset_dims,
        numbers.collapsed_slice_dims,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
        numbers.index_vector_dim,
    )
    _add_factors(windows, _Adder(builder), FactorType.PASS_THROUGH)
    return builder.build()


def _scatter(op: Operation) -> OpShardingRule:
    numbers = attribute(op, "scatter_dimension_numbers", ScatterDimensionNumbers)
    count = len(op.results)
    builder = RuleBuilder.of(op)
    windows = _Windows(
        shape(op.operands[0]),
        shape(op.operands[count]),
        shape(op.operands[count + 1]),
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        numbers.input_batching_dims,
        numbers.scatter_indices_batching_dims,
        numbers.index_vector_dim,
    )
    # Each shard of the updates gives a partial result, if those can be combined.
    combines = scatter_reduction(op) is not None
    implicit = FactorType.REDUCTION if combines else FactorType.NEED_REPLICATION
    _add_factors(windows, _Adder(builder, count), implicit)
    return builder.build()


_COMBINING = {f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum")}
_COMBINING_BOOLEANS = {"stablehlo.and", "stablehlo.or"}


def scatter_reduction(op: Operation) -> Operation | None:
    """Return the operation by which a scatter combines updates with old values.

    It must be one and the same for all inputs, associative and commutative
    (add, multiply, maximum, minimum; and, or for booleans), and take exactly the
    old value and the update. Otherwise None.
    """
    region = op.regions[0]
    if not region.blocks:
        return None
    block = region.blocks[0]
    count = len(op.operands) // 2
    terminator = block.last
    if (
        len(block.arguments) != 2 * count
        or terminator is None
        or terminator.name != "stablehlo.return"
        or len(terminator.operands) != count
    ):
        return None
    first: Operation | None = None
    for index, value in enumerate(terminator.operands):
        expected = {block.arguments[index], block.arguments[index + count]}
        combiner = _combiner(value, expected)
        if combiner is None or (first is not None and first.name != combiner.name):
            return None
        first = first or combiner
    return first


def _combiner(value: Value, expected: set[BlockArgument]) -> Operation | None:
    """Return the operation that computes a value from two arguments, in either order."""
    op = value.defining_op
    if op is None or len(op.operands) != 2 or set(op.operands) != expected:
        return None
    if not isinstance(value.type, TensorType):
        return None
    boolean = value.type.element == IntegerType(1)
    known = op.name in _COMBINING or (boolean and op.name in _COMBINING_BOOLEANS)
    return op if known else None


RULES: dict[str, RuleFunction] = {
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
"""Rule functions, by name of the operation."""
