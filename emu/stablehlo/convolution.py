"""Convolutions."""

from __future__ import annotations

from typing import ClassVar

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute, DenseArrayAttr
from emu.mlir.forms import ATTRIBUTES, SIGNATURE, Draft, Operands, Piece
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType, TensorType
from emu.stablehlo.attribute_parser import read_conv_body, read_dims
from emu.stablehlo.attributes import ConvDimensionNumbers, dims_text
from emu.stablehlo.checks import Invalid, Shape, check_result_shape, integer, tensor
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import array_of_ints, ints
from emu.stablehlo.windows import padding, padding_attribute, windows

# Forms


class _ConvNumbers(Piece):
    """``[b, 0, f]x[0, i, o]->[b, 0, f]``."""

    writes = needs = ("dimension_numbers",)

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties[self.writes[0]] = read_conv_body(p)

    def write(self, w: OpPrinter, op: Operation) -> None:
        numbers = op.properties[self.writes[0]]
        w.write(numbers.body() if isinstance(numbers, ConvDimensionNumbers) else str(numbers))


class _WindowPiece(Piece):
    """``stride = [2], pad = [[1, 1]], reverse = [false]``: what is given of it."""

    words: ClassVar[dict[str, str]] = {
        "stride": "window_strides",
        "pad": "padding",
        "lhs_dilate": "lhs_dilation",
        "rhs_dilate": "rhs_dilation",
        "reverse": "window_reversal",
    }
    writes = tuple(words.values())

    def read(self, p: OpParser, draft: Draft) -> None:
        while (word := p.optional_keyword()) is not None:
            if word not in self.words or self.words[word] in draft.properties:
                p.error(f"Unexpected keyword {word}")
            p.expect("=")
            draft.properties[self.words[word]] = _read_window(p, word)
            if not p.accept(","):
                break

    def write(self, w: OpPrinter, op: Operation) -> None:
        given = [(word, op.properties.get(name)) for word, name in self.words.items()]
        texts = [f"{word} = {_window_text(word, value)}" for word, value in given if value]
        w.write(", ".join(texts))


def _read_window(p: OpParser, word: str) -> Attribute:
    if word == "pad":
        return padding_attribute(p.comma_separated("[", "]", lambda: _read_padding(p)))
    if word == "reverse":
        flags = p.comma_separated("[", "]", lambda: _read_flag(p))
        return DenseArrayAttr(IntegerType(1), tuple(flags))
    return array_of_ints(read_dims(p))


def _read_padding(p: OpParser) -> tuple[int, int]:
    pair = read_dims(p)
    if len(pair) != 2:
        p.error(f"Expected array with 2 elements, got {len(pair)} elements instead")
    return pair


def _read_flag(p: OpParser) -> int:
    if p.accept_keyword("true"):
        return 1
    if p.accept_keyword("false"):
        return 0
    return int(p.integer() != 0)


def _window_text(word: str, value: Attribute) -> str:
    if word == "pad":
        return f"[{', '.join(f'[{low}, {high}]' for low, high in padding(value))}]"
    if word == "reverse" and isinstance(value, DenseArrayAttr):
        return f"[{', '.join('true' if flag else 'false' for flag in value.values)}]"
    return dims_text(ints(value))


# Shapes


def _check_dimensions(numbers: ConvDimensionNumbers, left: TensorType, right: TensorType) -> None:
    """Check that dimension numbers fit the operands."""
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
    """Check that the groups of features divide the features."""
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
    """Return the shape of a ``convolution``; None where sizes of the kernel are not known."""
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
    found = windows(op, known, ("lhs_dilation", "rhs_dilation"))
    for window, dim, out in zip(found, places, numbers.output_spatial_dimensions, strict=True):
        shape[out] = window.count(left.shape[dim])
    return tuple(shape)


define_ops(
    OpSpec(
        name="stablehlo.convolution",
        pieces=(
            *("(", Operands(), ") dim_numbers = ", _ConvNumbers()),
            *(", window = {", _WindowPiece(), "}", ATTRIBUTES, " : ", SIGNATURE),
        ),
        operands=2,
        required=("feature_group_count", "batch_group_count"),
        optional=("precision_config",),
        check=check_result_shape(convolution_shape),
        pure=True,
    ),
    OpSpec(
        name="stablehlo.dynamic_conv",
        operands=3,
        required=("dimension_numbers", "feature_group_count", "batch_group_count"),
        optional=(
            "window_strides",
            "lhs_dilation",
            "rhs_dilation",
            "window_reversal",
            "precision_config",
        ),
        pure=True,
    ),
)
