"""The types of results that follow from operands, where StableHLO infers them.

Not every operation's do: those of a ``reshape`` or a ``dot_general`` are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emu.sdy.mlir.ir import Operation, Value
from emu.sdy.mlir.types import TensorType, Type
from emu.sdy.rules.reading import integers
from emu.sdy.stablehlo.attributes import GatherDimensionNumbers
from emu.sdy.stablehlo.elementwise import ACCURATE, BINARY, UNARY
from emu.sdy.stablehlo.inference import RULES, Invalid, integer, tensor
from emu.sdy.stablehlo.syntax import ints

__all__ = ["implied_types"]


def implied_types(op: Operation) -> list[Type] | None:
    """The types that an operation's results have to have, by its operands.

    Args:
        op: Has its operands, attributes and regions.

    Returns:
        None if they do not follow from these.

    Raises:
        Invalid: The operands do not go together; the message says why.
    """
    name = op.name.removeprefix("stablehlo.")
    rule = RULES.get(name) or _RULES.get(name)
    return None if rule is None else rule(op)


def _element(value: Value) -> Type:
    return tensor(value.type).element


def _common(op: Operation) -> list[Type]:
    """All operands are of one type, of which some know more than others."""
    types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
    if not types:
        return [op.operands[0].type]
    first = types[0]
    shape = list(first.shape)
    for other in types[1:]:
        if other.rank != first.rank:
            raise Invalid(f"Mismatched ranks of types{first.rank} vs {other.rank}")
        for dim, (left, right) in enumerate(zip(shape, other.shape, strict=True)):
            if left is not None and right is not None and left != right:
                raise Invalid(f"Mismatched dimension sizes {left} and {right} in dimension {dim}")
            shape[dim] = right if left is None else left
    return [TensorType(tuple(shape), first.element)]


def _same_as_operands(op: Operation) -> list[Type]:
    return [value.type for value in op.operands]


def _accumulators(op: Operation, region: int, inputs: Iterable[Value]) -> list[Type]:
    """What the body of a reduction gives for each input, else the input's element type."""
    last = op.body(region).last
    return [_element(value) for value in (inputs if last is None else last.operands)]


def _all_reduce(op: Operation) -> list[Type]:
    element = _accumulators(op, 0, op.operands)[0]
    return [TensorType(tensor(value.type).shape, element) for value in op.operands]


def _scatter(op: Operation) -> list[Type]:
    inputs = op.operands[: len(op.operands) // 2]
    elements = _accumulators(op, 0, inputs)
    return [
        TensorType(tensor(value.type).shape, element)
        for value, element in zip(inputs, elements, strict=False)
    ]


def _select_and_scatter(op: Operation) -> list[Type]:
    (source, *_) = op.operands
    return [TensorType(tensor(source.type).shape, _accumulators(op, 1, [source])[0])]


def _map(op: Operation) -> list[Type]:
    return [TensorType(tensor(op.operands[-1].type).shape, _accumulators(op, 0, op.operands)[0])]


def _windows(size: int | None, window: int, stride: int, low: int, high: int) -> int | None:
    """How many windows fit; all sizes are those after dilation."""
    if size is None:
        return None
    padded = size + low + high
    return 0 if padded == 0 or window > padded else (padded - window) // stride + 1


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def _reduce_window(op: Operation) -> list[Type]:
    inputs = op.operands[: len(op.operands) // 2]
    window = ints(op.properties["window_dimensions"])
    ones = (1,) * len(window)
    strides = integers(op, "window_strides") or ones
    base = integers(op, "base_dilations") or ones
    dilations = integers(op, "window_dilations") or ones
    padding = integers(op, "padding") or (0,) * (2 * len(window))

    def sizes(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(
            _windows(
                None if size is None else _dilated(size, base[dim]),
                _dilated(window[dim], dilations[dim]),
                strides[dim],
                *padding[2 * dim : 2 * dim + 2],
            )
            for dim, size in enumerate(shape)
        )

    return [
        TensorType(sizes(tensor(value.type).shape), element)
        for value, element in zip(inputs, _accumulators(op, 0, inputs), strict=False)
    ]


def _gather(op: Operation) -> list[Type] | None:
    numbers = op.properties["dimension_numbers"]
    if not isinstance(numbers, GatherDimensionNumbers):
        return None
    source, indices = (tensor(value.type) for value in op.operands)
    slices = ints(op.properties["slice_sizes"])
    dropped = numbers.collapsed_slice_dims + numbers.operand_batching_dims
    offsets = [size for dim, size in enumerate(slices) if dim not in dropped]
    batch = [s for dim, s in enumerate(indices.shape) if dim != numbers.index_vector_dim]
    rank = len(offsets) + len(batch)
    shape = tuple((offsets if d in numbers.offset_dims else batch).pop(0) for d in range(rank))
    return [TensorType(shape, source.element)]


def _triangular_solve(op: Operation) -> list[Type]:
    return [op.operands[1].type]


def _batch_norm(op: Operation) -> list[Type]:
    source = tensor(op.operands[0].type)
    channel: Type = TensorType((source.shape[integer(op, "feature_index")],), source.element)
    return [source, channel, channel][: len(op.results)]


_RULES: dict[str, Callable[[Operation], list[Type] | None]] = {
    **dict.fromkeys((*ACCURATE, *BINARY, "reduce_precision"), _common),
    **dict.fromkeys(
        set(UNARY) - {"abs", "convert", "imag", "real", "uniform_dequantize", "uniform_quantize"},
        _common,
    ),
    **dict.fromkeys(("optimization_barrier", "sort", "while"), _same_as_operands),
    **dict.fromkeys(
        ("batch_norm_grad", "batch_norm_inference", "batch_norm_training"), _batch_norm
    ),
    "all_reduce": _all_reduce,
    "gather": _gather,
    "map": _map,
    "reduce_window": _reduce_window,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "triangular_solve": _triangular_solve,
}
"""By name without ``stablehlo.``, beside those that the verifier needs."""
