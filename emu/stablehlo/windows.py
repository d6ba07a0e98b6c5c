"""Windows: of ``reduce_window`` and of convolutions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dense import element_values
from emu.mlir.ir import Operation, Value
from emu.mlir.types import TensorType, Type
from emu.stablehlo.attributes import ConvDimensionNumbers
from emu.stablehlo.inference import Invalid, Shape, compatible_shapes, integer, tensor
from emu.stablehlo.syntax import ints

__all__ = ["accumulators", "convolution_shape", "reduce_window_types"]

_DESCRIBED = (
    "window-strides",
    "base-dilation factors",
    "window-dilation factors",
    "padding-entries",
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


def _windows(op: Operation, sizes: Sequence[int], dilations: tuple[str, str]) -> list[_Window]:
    """The windows of an operation.

    Args:
        op: The operation.
        sizes: Their sizes.
        dilations: The names of the attributes that dilate the base and the window.
    """
    rank = len(sizes)
    lists = []
    for name, described in zip(("window_strides", *dilations, "padding"), _DESCRIBED, strict=True):
        width = 2 if name == "padding" else 1
        values = _integers(op.properties.get(name))
        if values and len(values) != width * rank:
            raise Invalid(
                f"expects {described} to have same dimension-size as size of window dimensions "
                f"({rank}), but got: {len(values) // width}."
            )
        lists.append(values or (2 - width,) * (width * rank))
    strides, base, inner, padding = lists
    windows = []
    for dim, size in enumerate(sizes):
        around = (padding[2 * dim], padding[2 * dim + 1])
        windows.append(_Window(size, strides[dim], base[dim], inner[dim], around))
        problem = windows[-1].problem(dim)
        if problem is not None:
            raise Invalid(problem)
    return windows


def reduce_window_types(op: Operation) -> list[Type]:
    """The types of the results of a ``reduce_window``."""
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
    sizes, rank = ints(op.properties["window_dimensions"]), len(shapes[0])
    if len(sizes) != rank:
        raise Invalid(
            "expects window-dimensions size == input rank, but got window-dimensions size: "
            f"{len(sizes)} and input: '{inputs[0].type}' with rank = {rank}."
        )
    windows = _windows(op, sizes, ("base_dilations", "window_dilations"))
    elements = accumulators(op, 0, inputs)
    return [
        TensorType(tuple(w.count(size) for w, size in zip(windows, shape, strict=True)), element)
        for shape, element in zip(shapes, elements, strict=False)
    ]


def accumulators(op: Operation, region: int, inputs: Iterable[Value]) -> list[Type]:
    """What the body of a reduction gives for each input, else the input's element type."""
    last = op.body(region).last
    return [tensor(value.type).element for value in (inputs if last is None else last.operands)]


def _check_dimensions(numbers: ConvDimensionNumbers, left: TensorType, right: TensorType) -> None:
    """Raise `Invalid` if dimension numbers do not fit the operands."""
    rank = left.rank
    if rank != right.rank:
        raise Invalid(
            "expects convolution arguments to have same number of dimensions. Got: "
            f"'{left}' and '{right}'."
        )
    places = (
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
    )
    counts = [len(each) for each in places]
    if len(set(counts)) > 1:
        raise Invalid(
            "expects the same size for input, kernel and output spatial-dimensions, but got "
            f"{counts[0]}, {counts[1]}, and {counts[2]} resp."
        )
    others = (
        (numbers.input_batch_dimension, numbers.input_feature_dimension),
        (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension),
        (numbers.output_batch_dimension, numbers.output_feature_dimension),
    )
    for dims in (*places, *others):
        if not all(0 <= dim < rank for dim in dims):
            raise Invalid(
                f"expects input, kernel, and output dimension-numbers to be in-range [0, {rank})."
            )
    if rank != counts[0] + 2:
        raise Invalid(
            f"expects convolution arguments to have {counts[0] + 2} dimensions. Got: {rank}"
        )


def _check_groups(
    op: Operation, numbers: ConvDimensionNumbers, left: TensorType, right: TensorType
) -> None:
    """Raise `Invalid` if the groups of features do not work out."""
    groups = integer(op, "feature_group_count")
    features = left.shape[numbers.input_feature_dimension]
    taken = right.shape[numbers.kernel_input_feature_dimension]
    if features is not None and features % groups:
        raise Invalid(
            f"expects input feature dimension ({features}) to be a multiple of "
            f"feature_group_count. Got feature_group_count = {groups}."
        )
    if features is not None and taken is not None and features // groups != taken:
        raise Invalid(
            f"expects input feature dimension ({features}) / feature_group_count = kernel input "
            f"feature dimension ({taken}). Got feature_group_count = {groups}."
        )


def convolution_shape(op: Operation) -> Shape | None:
    """The shape of a ``convolution``; None if not all of its attributes are known."""
    left, right = (tensor(value.type) for value in op.operands)
    numbers = op.properties["dimension_numbers"]
    if not isinstance(numbers, ConvDimensionNumbers):
        return None
    _check_dimensions(numbers, left, right)
    _check_groups(op, numbers, left, right)
    places = numbers.input_spatial_dimensions
    kernel = [right.shape[dim] for dim in numbers.kernel_spatial_dimensions]
    known = [size for size in kernel if size is not None]
    if len(known) < len(kernel):
        return None
    shape = [left.shape[numbers.input_batch_dimension]] * left.rank
    batch = left.shape[numbers.input_batch_dimension]
    groups = integer(op, "batch_group_count")
    shape[numbers.output_batch_dimension] = None if batch is None else batch // groups
    shape[numbers.output_feature_dimension] = right.shape[numbers.kernel_output_feature_dimension]
    windows = _windows(op, known, ("lhs_dilation", "rhs_dilation"))
    for window, dim, out in zip(windows, places, numbers.output_spatial_dimensions, strict=True):
        shape[out] = window.count(left.shape[dim])
    return tuple(shape)
