"""The types of results that follow from operands, where StableHLO infers them.

Not every operation's do: those of a ``reshape`` or a ``dot_general`` are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emu.sdy.mlir.attributes import Attribute, DenseElementsAttr
from emu.sdy.mlir.dense import element_values
from emu.sdy.mlir.ir import Operation, Value
from emu.sdy.mlir.types import TensorType, Type
from emu.sdy.stablehlo.attributes import GatherDimensionNumbers
from emu.sdy.stablehlo.elementwise import ACCURATE, BINARY, UNARY
from emu.sdy.stablehlo.inference import (
    RULES,
    Invalid,
    compatible_shapes,
    integer,
    tensor,
)
from emu.sdy.stablehlo.syntax import ints

__all__ = ["CHECKED", "implied_types"]


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
    rule = CHECKED.get(name) or _RULES.get(name)
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


# Windows

_WINDOW_LISTS = (
    ("window_strides", "window-strides"),
    ("base_dilations", "base-dilation factors"),
    ("window_dilations", "window-dilation factors"),
    ("padding", "padding-entries"),
)


def _integers(attribute: Attribute | None) -> tuple[int, ...]:
    """The numbers of ``array<i64: …>`` or of ``dense<…> : tensor<…xi64>``."""
    if not isinstance(attribute, DenseElementsAttr):
        return ints(attribute)
    values = tuple(v - (1 << 64) if v >> 63 else v for v in element_values(attribute))
    count = tensor(attribute.type).size
    return values * count if attribute.splat else values


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


@dataclass(frozen=True, slots=True)
class _Window:
    """A window along one dimension."""

    size: int
    stride: int
    base_dilation: int
    dilation: int
    padding: tuple[int, int]

    def problem(self, dim: int) -> str | None:
        """What is wrong with it."""
        for what, value in (
            ("value", self.size),
            ("stride", self.stride),
            ("base dilation factor", self.base_dilation),
            ("window dilation factor", self.dilation),
        ):
            if value <= 0:
                return (
                    f"expects window to have positive {what} for {dim}-th window dimension, but "
                    f"got {value}."
                )
        return None

    def count(self, size: int | None) -> int | None:
        """In how many places of a dimension it fits."""
        if size is None:
            return None
        padded = sum(self.padding) + _dilated(size, self.base_dilation)
        window = _dilated(self.size, self.dilation)
        return 0 if not padded or window > padded else (padded - window) // self.stride + 1


def _windows(op: Operation, rank: int) -> list[_Window]:
    sizes = ints(op.properties["window_dimensions"])
    if len(sizes) != rank:
        raise Invalid(
            "expects window-dimensions size == input rank, but got window-dimensions size: "
            f"{len(sizes)} and input: '{op.operands[0].type}' with rank = {rank}."
        )
    lists = []
    for name, described in _WINDOW_LISTS:
        width = 2 if name == "padding" else 1
        values = _integers(op.properties.get(name))
        if values and len(values) != width * rank:
            raise Invalid(
                f"expects {described} to have same dimension-size as size of window dimensions "
                f"({rank}), but got: {len(values) // width}."
            )
        lists.append(values or (2 - width,) * (width * rank))
    strides, base, dilations, padding = lists
    windows = []
    for dim, size in enumerate(sizes):
        around = (padding[2 * dim], padding[2 * dim + 1])
        windows.append(_Window(size, strides[dim], base[dim], dilations[dim], around))
        problem = windows[-1].problem(dim)
        if problem is not None:
            raise Invalid(problem)
    return windows


def _reduce_window(op: Operation) -> list[Type]:
    inputs = op.operands[: len(op.operands) // 2]
    if not inputs:
        raise Invalid("requires at least 1 input value")
    shapes = [tensor(value.type).shape for value in inputs]
    for index, shape in enumerate(shapes):
        if not compatible_shapes(shape, shapes[0]):
            raise Invalid(
                "expects all inputs to have compatible shapes. Shape at input-index "
                f"{index} is not compatible with shape at input-index 0"
            )
    windows = _windows(op, len(shapes[0]))
    elements = _accumulators(op, 0, inputs)
    return [
        TensorType(tuple(w.count(size) for w, size in zip(windows, shape, strict=True)), element)
        for shape, element in zip(shapes, elements, strict=False)
    ]


# Others


def _gather(op: Operation) -> list[Type]:
    numbers = op.properties["dimension_numbers"]
    if not isinstance(numbers, GatherDimensionNumbers):
        raise Invalid("attribute 'dimension_numbers' failed to satisfy constraint")
    source, indices = (tensor(value.type) for value in op.operands)
    slices = ints(op.properties["slice_sizes"])
    for dim, (size, whole) in enumerate(zip(slices, source.shape, strict=True)):
        if size < 0 or (whole is not None and size > whole):
            raise Invalid(
                f"slice size ({size}) is out of bounds for operand dimension ({whole}) at index "
                f"{dim}"
            )
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


CHECKED: dict[str, Callable[[Operation], list[Type]]] = {
    **RULES,
    "gather": _gather,
    "reduce_window": _reduce_window,
}
"""By name without ``stablehlo.``: those that the verifier compares with the results'."""

_RULES: dict[str, Callable[[Operation], list[Type]]] = {
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
    "map": _map,
    "scatter": _scatter,
    "select_and_scatter": _select_and_scatter,
    "triangular_solve": _triangular_solve,
}
"""The others."""
