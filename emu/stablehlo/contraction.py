"""Products, convolutions and linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from emu.mlir.attributes import ArrayAttr, Attribute, BoolAttr, DenseArrayAttr, DenseElementsAttr
from emu.mlir.registry import OpDefinition, define
from emu.mlir.types import IntegerType, TensorType
from emu.stablehlo.attribute_text import read_conv_body, read_dims, read_dot_algorithm, read_enum
from emu.stablehlo.attributes import (
    ConvDimensionNumbers,
    DotAlgorithm,
    DotDimensionNumbers,
    EnumAttribute,
    FftType,
    Precision,
    dims_text,
)
from emu.stablehlo.syntax import (
    ATTRIBUTES,
    I64,
    SAME_TYPE,
    SIGNATURE,
    Draft,
    Enumeration,
    Ints,
    Operands,
    Piece,
    String,
    array_of_ints,
    define_pure,
    ints,
)

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser, OpPrinter
    from emu.mlir.ir import Operation

__all__ = ["padding", "padding_attribute"]

CONVOLUTION = ("feature_group_count", "batch_group_count", "precision_config")
DYNAMIC_CONVOLUTION = (
    "window_strides",
    "lhs_dilation",
    "rhs_dilation",
    "window_reversal",
    "dimension_numbers",
    *CONVOLUTION,
)


def padding_attribute(pairs: Sequence[tuple[int, int]]) -> DenseElementsAttr:
    """``dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>``."""
    values = [value for pair in pairs for value in pair]
    splat = bool(values) and all(value == values[0] for value in values)
    data = b"".join(v.to_bytes(8, "little", signed=True) for v in values[: 1 if splat else None])
    return DenseElementsAttr(data, TensorType((len(pairs), 2), I64), splat)


def padding(attribute: Attribute | None) -> list[tuple[int, int]]:
    """The pairs of such an attribute; none where it is absent."""
    if not isinstance(attribute, DenseElementsAttr) or not isinstance(attribute.type, TensorType):
        return []
    data = attribute.data
    values = [
        int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)
    ]
    if attribute.splat:
        values *= attribute.type.size
    return list(zip(values[::2], values[1::2], strict=True))


class _DotNumbers(Piece):
    """``batching_dims = [0] x [0], contracting_dims = [2] x [1]``."""

    writes = needs = ("dot_dimension_numbers",)

    def read(self, p: OpParser, draft: Draft) -> None:
        batching: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        if p.accept_keyword("batching_dims"):
            batching = _read_pair(p)
            p.expect(",")
        p.expect_keyword("contracting_dims")
        draft.properties[self.writes[0]] = DotDimensionNumbers(*batching, *_read_pair(p))

    def write(self, w: OpPrinter, op: Operation) -> None:
        numbers = op.properties[self.writes[0]]
        if not isinstance(numbers, DotDimensionNumbers):
            w.attribute(numbers)
            return
        left, right = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
        if left or right:
            w.write(f"batching_dims = {dims_text(left)} x {dims_text(right)}, ")
        left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
        w.write(f"contracting_dims = {dims_text(left)} x {dims_text(right)}")


def _read_pair(p: OpParser) -> tuple[tuple[int, ...], tuple[int, ...]]:
    p.expect("=")
    left = read_dims(p)
    p.expect_keyword("x")
    return left, read_dims(p)


class _Precision(Piece):
    """``, precision = [HIGH, DEFAULT]``, and ``, algorithm = <…>``, if given."""

    def __init__(self, *, algorithm: bool) -> None:
        self.algorithm = algorithm
        self.writes = ("precision_config", "algorithm") if algorithm else ("precision_config",)

    def read(self, p: OpParser, draft: Draft) -> None:
        if not p.accept(","):
            return
        if not (self.algorithm and p.peek_keyword("algorithm")):
            p.expect_keyword("precision")
            p.expect("=")
            words = p.comma_separated("[", "]", lambda: read_enum(p, Precision))
            draft.properties["precision_config"] = ArrayAttr(tuple(words))
            if not (self.algorithm and p.accept(",")):
                return
        p.expect_keyword("algorithm")
        p.expect("=")
        draft.properties["algorithm"] = read_dot_algorithm(p)

    def write(self, w: OpPrinter, op: Operation) -> None:
        precision = op.properties.get("precision_config")
        if isinstance(precision, ArrayAttr):
            words = [
                e.value if isinstance(e, EnumAttribute) else str(e) for e in precision.elements
            ]
            w.write(f", precision = [{', '.join(words)}]")
        algorithm = op.properties.get("algorithm")
        if isinstance(algorithm, DotAlgorithm):
            w.write(f", algorithm = <{algorithm.body()}>")


class _ConvNumbers(Piece):
    """``[b, 0, f]x[0, i, o]->[b, 0, f]``."""

    writes = needs = ("dimension_numbers",)

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties[self.writes[0]] = read_conv_body(p)

    def write(self, w: OpPrinter, op: Operation) -> None:
        numbers = op.properties[self.writes[0]]
        w.write(numbers.body() if isinstance(numbers, ConvDimensionNumbers) else str(numbers))


class _Window(Piece):
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


class _Lower(Piece):
    """``, lower = true``; false is not written."""

    writes = ("lower",)

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(","):
            p.expect_keyword("lower")
            p.expect("=")
            draft.properties["lower"] = p.attribute()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.properties.get("lower") == BoolAttr(True):
            w.write(", lower = true")


def _define_all() -> None:
    rest = (ATTRIBUTES, " : ", SIGNATURE)
    define_pure("dot", " ", Operands(2), _Precision(algorithm=False), *rest)
    define_pure(
        "dot_general", " ", Operands(2), ", ", _DotNumbers(), _Precision(algorithm=True), *rest
    )
    define_pure(
        "convolution",
        *("(", Operands(), ") dim_numbers = ", _ConvNumbers()),
        *(", window = {", _Window(), "}", *rest),
        more=CONVOLUTION,
    )
    define(OpDefinition("stablehlo.dynamic_conv", DYNAMIC_CONVOLUTION, pure=True))
    define_pure("einsum", " ", Operands(2), ", config = ", String("einsum_config"), *rest)
    define_pure("unary_einsum", " ", Operands(1), ", config = ", String("einsum_config"), *rest)
    kind = Enumeration("fft_type", FftType)
    define_pure(
        "fft", " ", Operands(1), ", type = ", kind, ", length = ", Ints("fft_length"), *rest
    )
    define_pure("cholesky", " ", Operands(1), _Lower(), ATTRIBUTES, " : ", SAME_TYPE)
    solve = ("left_side", "lower", "unit_diagonal", "transpose_a")
    define(OpDefinition("stablehlo.triangular_solve", solve, pure=True))


_define_all()
