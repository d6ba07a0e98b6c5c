"""Types that follow from operands, and windows that make no sense."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.diagnostics import MlirError
from emu.mlir.ir import Operation
from emu.stablehlo.checks import Invalid
from emu.stablehlo.type_inference import implied_types

HEAD = (
    "func.func @f(%x: tensor<4x6xf32>, %s: tensor<f32>, %i: tensor<3x1xi32>, %c: tensor<6xf32>, "
    "%q: tensor<4x4xf32>, %n: tensor<2x9x8x4xf32>, %w: tensor<3x3x2x6xf32>, "
    "%d: tensor<?x6xf32>, %u: tensor<3x6xf32>) {\n  "
)


X = "tensor<4x6xf32>"


ADD = """({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %2 = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  })"""


GREATER = """({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %2 = stablehlo.compare GT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  })"""


ROWS = (
    "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
    "index_vector_dim = 1>"
)


def window(attributes: str, result: str, operand: str = X) -> str:
    return (
        f'%0 = "stablehlo.reduce_window"(%x, %s) {ADD} {{{attributes}}} : ({operand}, tensor<f32>) '
        f"-> {result}"
    )


def gather(numbers: str, sizes: str, result: str) -> str:
    return (
        f'%0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = {numbers}, slice_sizes = '
        f"array<i64: {sizes}>}}> : ({X}, tensor<3x1xi32>) -> {result}"
    )


def convolution(
    result: str,
    numbers: str = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    more: str = "",
    groups: int = 2,
) -> str:
    return (
        f"%0 = stablehlo.convolution(%n, %w) dim_numbers = {numbers}, window = {{{more}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
        f"(tensor<2x9x8x4xf32>, tensor<3x3x2x6xf32>) -> {result}"
    )


def operation(text: str) -> Operation:
    module = parse(f"{HEAD}{text}\n  return\n}}")
    return next(op for op in module.walk() if op.name.startswith("stablehlo."))


BATCH = "<{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>"


C = "tensor<6xf32>"


GOOD = [
    f"%0 = stablehlo.tanh %x : {X}",
    f"%0 = stablehlo.power %x, %x : {X}",
    f"%0 = stablehlo.convert %x : ({X}) -> tensor<4x6xf64>",
    f"%0 = stablehlo.reduce_precision %x, format = e5m10 : {X}",
    f"%0 = stablehlo.optimization_barrier %x : {X}",
    f'%0 = "stablehlo.sort"(%x) {GREATER} {{dimension = 1 : i64}} : ({X}) -> {X}',
    f'%0 = "stablehlo.map"(%x, %x) {ADD} {{dimensions = array<i64: 0, 1>}} : ({X}, {X}) -> {X}',
    (
        f'%0 = "stablehlo.all_reduce"(%x) {ADD} {{replica_groups = dense<0> : tensor<1x1xi64>}} '
        f": ({X}) -> {X}"
    ),
    (
        f'%0 = "stablehlo.scatter"(%x, %i, %u) {ADD} {{scatter_dimension_numbers = '
        "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : "
        f"({X}, tensor<3x1xi32>, tensor<3x6xf32>) -> {X}"
    ),
    (
        f'%0 = "stablehlo.select_and_scatter"(%x, %x, %s) {GREATER[:-1]}, {ADD[1:]} '
        "{window_dimensions = array<i64: 1, 1>} "
        f": ({X}, {X}, tensor<f32>) -> {X}"
    ),
    (
        '%0 = "stablehlo.triangular_solve"(%q, %x) <{left_side = true, lower = true, transpose_a = '
        "#stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : "
        f"(tensor<4x4xf32>, {X}) -> {X}"
    ),
    (
        f'%0:3 = "stablehlo.batch_norm_training"(%x, %c, %c) {BATCH} : ({X}, {C}, {C}) -> '
        f"({X}, {C}, {C})"
    ),
    (
        f'%0 = "stablehlo.batch_norm_inference"(%x, %c, %c, %c, %c) {BATCH} : '
        f"({X}, {C}, {C}, {C}, {C}) -> {X}"
    ),
    window("window_dimensions = array<i64: 2, 3>", "tensor<3x4xf32>"),
    window(
        "window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>, "
        "base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 1, 2>, "
        "padding = dense<[[1, -1], [0, 3]]> : tensor<2x2xi64>",
        "tensor<3x5xf32>",
    ),
    window("window_dimensions = array<i64: 5, 1>", "tensor<0x6xf32>"),
    gather(ROWS, "1, 6", "tensor<3x6xf32>"),
    gather(ROWS, "1, 4", "tensor<3x4xf32>"),
]


@pytest.mark.parametrize("text", GOOD)
def test_types_that_follow(text: str) -> None:
    op = operation(text)
    implied = implied_types(op)
    assert implied is None or implied == [result.type for result in op.results]
    assert (implied is None) == (op.name == "stablehlo.convert")


def test_what_one_operand_does_not_know_another_may() -> None:
    op = operation(
        "%0 = stablehlo.add %d, %x : (tensor<?x6xf32>, tensor<4x6xf32>) -> tensor<?x6xf32>"
    )
    implied = implied_types(op)
    assert implied is not None
    assert str(implied[0]) == X


def test_operands_that_do_not_go_together() -> None:
    op = operation(f"%0 = stablehlo.add %x, %x : {X}")
    other = operation("%0 = stablehlo.negate %u : tensor<3x6xf32>")
    op.set_operand(1, other.result)
    with pytest.raises(Invalid, match="Mismatched dimension sizes 4 and 3 in dimension 0"):
        implied_types(op)
    op.set_operand(1, operation("%0 = stablehlo.negate %c : tensor<6xf32>").result)
    with pytest.raises(Invalid, match="Mismatched ranks of types2 vs 1"):
        implied_types(op)


OTHER = "tensor<4x8xf32>"


BAD = [
    (
        f"%0 = stablehlo.abs %x : ({X}) -> {OTHER}",
        "op all non-scalar operands/results must have the same shape and base type",
    ),
    (
        f'%0 = "stablehlo.sort"(%x) {GREATER} {{dimension = 1 : i64}} : ({X}) -> {OTHER}',
        "'stablehlo.sort' op requires the same shape for all operands and results",
    ),
    (
        f'%0 = "stablehlo.map"(%x) {ADD} {{dimensions = array<i64: 0, 1>}} : ({X}) -> {OTHER}',
        "'stablehlo.map' op requires the same shape for all operands and results",
    ),
    (
        (
            f'%0 = "stablehlo.all_reduce"(%x) {ADD} {{replica_groups = dense<0> : '
            f"tensor<1x1xi64>}} : ({X}) -> {OTHER}"
        ),
        f"'stablehlo.all_reduce' op inferred type(s) '{X}' are incompatible with return type(s)",
    ),
    (
        (
            f'%0 = "stablehlo.select_and_scatter"(%x, %x, %s) {GREATER[:-1]}, {ADD[1:]} '
            f"{{window_dimensions = array<i64: 1, 1>}} : ({X}, {X}, tensor<f32>) -> {OTHER}"
        ),
        f"'stablehlo.select_and_scatter' op inferred type(s) '{X}' are incompatible with",
    ),
    (
        window("window_dimensions = array<i64: 2, 3>", X),
        "inferred type(s) 'tensor<3x4xf32>' are incompatible with return type(s) of operation",
    ),
    (
        window("window_dimensions = array<i64: 2>", X),
        (
            "expects window-dimensions size == input rank, but got window-dimensions size: 1 and "
            "input: 'tensor<4x6xf32>' with rank = 2."
        ),
    ),
    (
        window("window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1>", X),
        (
            "expects window-strides to have same dimension-size as size of window dimensions (2), "
            "but got: 1."
        ),
    ),
    (
        window("window_dimensions = array<i64: 2, 3>, padding = dense<0> : tensor<3x2xi64>", X),
        "expects padding-entries to have same dimension-size as size of window dimensions (2)",
    ),
    (
        window("window_dimensions = array<i64: 2, 0>", X),
        "expects window to have positive value for 1-th window dimension, but got 0.",
    ),
    (
        window("window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 0, 1>", X),
        "expects window to have positive stride for 0-th window dimension, but got 0.",
    ),
    (
        window("window_dimensions = array<i64: 2, 3>, base_dilations = array<i64: 1, -1>", X),
        "expects window to have positive base dilation factor for 1-th window dimension, but got -1.",
    ),
    (
        gather(ROWS, "1, 6", "tensor<3x5xf32>"),
        "inferred type(s) 'tensor<3x6xf32>' are incompatible with return type(s) of operation",
    ),
    (
        gather(ROWS, "1, 7", "tensor<3x7xf32>"),
        "slice size (7) is out of bounds for operand dimension (6) at index 1",
    ),
    (
        gather(ROWS.replace("[1], collapsed", "[1, 2], collapsed"), "1, 6", "tensor<3x6xf32>"),
        (
            "offset_dims size (2) plus collapse_slice_dims size (1) plus operand_batching_dims size "
            "(0) is not equal to operand rank (2)"
        ),
    ),
    (
        gather(ROWS.replace("offset_dims = [1]", "offset_dims = [2]"), "1, 6", "tensor<3x6xf32>"),
        (
            "Expects each element of offset_dims to be in range [0, implied-result-rank) i.e. "
            "[0, 2). got: 2."
        ),
    ),
    (
        gather(ROWS, "1, 6, 1", "tensor<3x6xf32>"),
        "slice_sizes size (3) not equal to operand rank (2)",
    ),
    (
        convolution("tensor<2x9x8x6xf32>"),
        "inferred shape '[2, 7, 6, 6]' is incompatible with return type of operation",
    ),
    (
        convolution("tensor<2x7x6x6xf32>", groups=1),
        (
            "expects input feature dimension (4) / feature_group_count = kernel input feature "
            "dimension (2). Got feature_group_count = 1."
        ),
    ),
    (
        convolution("tensor<2x7x6x6xf32>", groups=3),
        (
            "expects input feature dimension (4) to be a multiple of feature_group_count. Got "
            "feature_group_count = 3."
        ),
    ),
    (
        convolution("tensor<2x7x6x6xf32>", more="stride = [1, 0]"),
        "expects window to have positive stride for 1-th window dimension, but got 0.",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_makes_no_sense(text: str, message: str) -> None:
    with pytest.raises(MlirError) as caught:
        operation(text)
    assert message in str(caught.value)
