"""What is said of StableHLO operations that make no sense."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.diagnostics import MlirError

HEAD = (
    "func.func @f(%x: tensor<3x5xf32>, %y: tensor<5x3xf32>, %i: tensor<3x5xi32>, "
    "%p: tensor<3x5xi1>, %s: tensor<f32>, %k: tensor<i32>, "
    "%t: tuple<tensor<3x5xf32>, tensor<i32>>, %d: tensor<?x5xf32>) {\n  "
)


X, Y, S, K = "tensor<3x5xf32>", "tensor<5x3xf32>", "tensor<f32>", "tensor<i32>"


CASES = [
    (
        f'%0:2 = "stablehlo.optimization_barrier"(%x) : ({X}) -> ({X}, {X})',
        "op requires the same number of operands and results",
    ),
    (
        f"%0 = stablehlo.is_finite %x : ({X}) -> tensor<5x3xi1>",
        "op all non-scalar operands/results must have the same shape and base type",
    ),
    (
        f'%0 = "stablehlo.transpose"(%x) <{{permutation = [0, 1]}}> : ({X}) -> {X}',
        "op attribute 'permutation' failed to satisfy constraint: i64 dense array attribute",
    ),
    (
        (
            f'%0 = "stablehlo.all_to_all"(%x) <{{concat_dimension = 0 : i64, replica_groups = dense<0>'
            f" : tensor<1x1xi64>, split_count = 0 : i64, split_dimension = 1 : i64}}> : ({X}) -> {X}"
        ),
        "64-bit signless integer attribute whose value is positive",
    ),
    (
        f"%0 = stablehlo.iota dim = -1 : {X}",
        "64-bit signless integer attribute whose value is non-negative",
    ),
    (f'%0 = "chlo.erf"(%x, %x) : ({X}, {X}) -> {X}', "'chlo.erf' op requires a single operand"),
    (f'%0:2 = "mhlo.topk"(%x) : ({X}) -> ({X}, {X})', "'mhlo.topk' op requires attribute 'k'"),
    (f"%0 = stablehlo.add %x, %y : ({X}, {Y}) -> {X}", "same shape for all operands and results"),
    (f"%0 = stablehlo.add %x, %x : ({X}, {X}) -> tensor<3x5xf64>", "the same element type"),
    (
        f"%0 = stablehlo.multiply %x, %y : ({X}, {Y}) -> {X}",
        ("'stablehlo.multiply' op requires compatible types for all operands and results"),
    ),
    (f"%0 = stablehlo.negate %x : ({X}) -> {Y}", "op requires compatible types"),
    (f"%0 = stablehlo.convert %x : ({X}) -> tensor<5x3xi8>", "requires the same shape"),
    (
        f"%0 = stablehlo.abs %x : ({X}) -> {Y}",
        "op all non-scalar operands/results must have the same shape and base type",
    ),
    (
        f"%0 = stablehlo.abs %x : ({X}) -> tensor<3x5xf64>",
        (
            "op inferred type(s) 'tensor<3x5xf32>' "
            "are incompatible with return type(s) of operation 'tensor<3x5xf64>'"
        ),
    ),
    (
        f"%0 = stablehlo.compare LT, %x, %i : ({X}, tensor<3x5xi32>) -> tensor<3x5xi1>",
        "op requires compatible element types for all operands",
    ),
    (
        f"%0 = stablehlo.compare LT, %x, %x : ({X}, {X}) -> {X}",
        "op result #0 must be ranked tensor of bool values, but got 'tensor<3x5xf32>'",
    ),
    (
        f"%0 = stablehlo.select %x, %x, %x : {X}, {X}",
        "op operand #0 must be ranked tensor of bool values",
    ),
    (
        f"%0 = stablehlo.select %p, %y, %y : tensor<3x5xi1>, {Y}",
        "requires the same shape for all operands",
    ),
    (
        f"%0 = stablehlo.select %p, %x, %y : (tensor<3x5xi1>, {X}, {Y}) -> {X}",
        "requires compatible types for non-predicate operands",
    ),
    (
        f"%0 = stablehlo.clamp %y, %x, %y : ({Y}, {X}, {Y}) -> {X}",
        "min shape [5, 3] is not scalar and is not compatible to operand shape [3, 5]",
    ),
    (
        f"%0 = stablehlo.reshape %x : ({X}) -> tensor<4x4xf32>",
        "number of output elements (16) doesn't match expected number of elements (15)",
    ),
    (
        f"%0 = stablehlo.transpose %x, dims = [0, 0] : ({X}) -> {X}",
        "attribute permutation must be a permutation of [0, 1] but got 0, 0",
    ),
    (
        f"%0 = stablehlo.transpose %x, dims = [1] : ({X}) -> {X}",
        "TransposeOp operand rank 2 does not match permutation size 1",
    ),
    (
        f"%0 = stablehlo.broadcast_in_dim %x, dims = [0] : ({X}) -> {X}",
        "broadcast_dimensions size (1) does not match operand rank (2)",
    ),
    (
        f"%0 = stablehlo.broadcast_in_dim %x, dims = [1, 1] : ({X}) -> {X}",
        "should not have duplicates",
    ),
    (
        f"%0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : ({X}) -> {X}",
        "broadcast_dimensions contains invalid value 2 for result with rank 2",
    ),
    (
        f"%0 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : ({X}) -> {X}",
        "size of operand dimension 0 (3) is not equal to 1 or size of result dimension 1 (5)",
    ),
    (
        f"%0 = stablehlo.broadcast %x, sizes = [2] : ({X}) -> tensor<4x3x5xf32>",
        "op inferred type(s)",
    ),
    (
        f"%0 = stablehlo.concatenate %x, %y, dim = 0 : ({X}, {Y}) -> tensor<8x5xf32>",
        "not compatible at non-concat index 1: (3, 5) != (5, 3)",
    ),
    (f"%0 = stablehlo.concatenate %x, dim = 3 : ({X}) -> {X}", "dimension 3 is out-of-bounds"),
    (
        f"%0 = stablehlo.slice %x [0:2] : ({X}) -> tensor<2x5xf32>",
        "the number of elements in start_indices (1) does not match the rank of the operand (2)",
    ),
    (
        f"%0 = stablehlo.slice %x [0:4, 0:5] : ({X}) -> tensor<4x5xf32>",
        "limit index 4 is larger than dimension size 3 in dimension 0",
    ),
    (
        f"%0 = stablehlo.slice %x [-1:2, 0:5] : ({X}) -> {X}",
        "negative start index -1 in dimension 0",
    ),
    (
        f"%0 = stablehlo.slice %x [2:1, 0:5] : ({X}) -> {X}",
        "start index 2 is larger than limit index 1",
    ),
    (f"%0 = stablehlo.slice %x [0:1:0, 0:5] : ({X}) -> {X}", "stride must be positive but got 0"),
    (
        f"%0 = stablehlo.pad %x, %s, low = [0], high = [0, 0], interior = [0, 0] : ({X}, {S}) -> {X}",
        "all of {edge_padding_low, edge_padding_high, interior_padding} have same size",
    ),
    (
        f"%0 = stablehlo.pad %x, %s, low = [1, 0], high = [0, 0], interior = [0, 0] : ({X}, {S}) -> {X}",
        "op inferred type(s) 'tensor<4x5xf32>'",
    ),
    (
        f"%0 = stablehlo.pad %x, %s, low = [-4, 0], high = [0, 0], interior = [0, 0] : ({X}, {S}) -> {X}",
        "Padding result in negative size for dimension 0",
    ),
    (
        f"%0 = stablehlo.pad %x, %s, low = [0, 0], high = [0, 0], interior = [0, -2] : ({X}, {S}) -> {X}",
        "Interior padding cannot be negative: -2",
    ),
    (f"%0 = stablehlo.reverse %x, dims = [2] : {X}", "all dimensions should be between [0, 2)"),
    (f"%0 = stablehlo.reverse %x, dims = [1, 1] : {X}", "dimensions should be unique. Got: 1, 1"),
    (f"%0 = stablehlo.iota dim = 2 : {X}", "iota dimension cannot go beyond the output rank."),
    (f"%0 = stablehlo.iota dim = 0 : {S}", "does not support scalars."),
    (
        f"%0 = stablehlo.dynamic_slice %x, %k, %k, sizes = [4, 2] : ({X}, {K}, {K}) -> tensor<4x2xf32>",
        "has slice size 4 greater than dimension size 3 in dimension 0 of operand",
    ),
    (
        f"%0 = stablehlo.dynamic_slice %x, %k, sizes = [2, 2] : ({X}, {K}) -> tensor<2x2xf32>",
        "has mismatched number of slice sizes (2) and number of start indices (1)",
    ),
    (
        f"%0 = stablehlo.dynamic_update_slice %x, %y, %k, %k : ({X}, {Y}, {K}, {K}) -> {X}",
        "expects size at dimension 0 of update to be in range [0, 3]. Got: 5.",
    ),
    (
        f"%0 = stablehlo.dynamic_update_slice %x, %s, %k, %k : ({X}, {S}, {K}, {K}) -> {X}",
        "update rank does not match operand rank: 0 vs 2.",
    ),
    (
        f"%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({X}, {X}) -> {X}",
        "contracting dimension sizes must match for lhs/rhs",
    ),
    (
        f"%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({X}, {Y}) -> {X}",
        "inferred shape '[3, 3]' is incompatible with return type of operation 'tensor<3x5xf32>'",
    ),
    (
        f"%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [] : ({X}, {Y}) -> {X}",
        "lhs and rhs should have the same number of contracting dimensions",
    ),
    (
        f"%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [2] : ({X}, {Y}) -> {X}",
        "rhs_contracting_dimensions value: 2 is out of range: [0, 2)",
    ),
    (
        (
            f"%0 = stablehlo.dot_general %x, %y, batching_dims = [1] x [0], contracting_dims = [1] x [0]"
            f" : ({X}, {Y}) -> {X}"
        ),
        "has duplicated dimension from lhs_batching_dimensions",
    ),
    (
        f"%0 = stablehlo.dot %x, %x : ({X}, {X}) -> {X}",
        "expected both lhs/rhs ranks to be either 1 or 2",
    ),
    (f'%0 = "stablehlo.add"(%x) : ({X}) -> {X}', "op expected 2 operands, but found 1"),
    (f'"stablehlo.add"(%x, %x) : ({X}, {X}) -> ()', "op requires one result"),
    (f'%0 = "stablehlo.negate"(%x, %x) : ({X}, {X}) -> {X}', "op requires a single operand"),
    (f'%0 = "stablehlo.iota"(%x) : ({X}) -> {X}', "op requires zero operands"),
    (
        f'%0 = "stablehlo.concatenate"() <{{dimension = 0 : i64}}> : () -> {X}',
        "op expected 1 or more operands, but found 0",
    ),
    (f'%0 = "stablehlo.transpose"(%x) : ({X}) -> {X}', "op requires attribute 'permutation'"),
    (f'%0 = "stablehlo.while"(%x) : ({X}) -> {X}', "op expected 2 regions"),
    (f'%0 = "stablehlo.sort"(%x) : ({X}) -> {X}', "op requires one region"),
    (
        f'%0 = "stablehlo.sort"(%x) ({{}}) : ({X}) -> {X}',
        "op region #0 ('comparator') failed to verify constraint: region with 1 blocks",
    ),
    (f'%0 = "stablehlo.constant"() <{{value = dense<1.0> : {S}}}> : () -> {X}', "inferred type(s)"),
    (
        (
            f"%0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [2] : ({X}, {S})"
            " -> tensor<3xf32>"
        ),
        "Out-of-bounds dimension 2, expected to be in range [0, 2)",
    ),
    (
        (
            f"%0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] : ({X}, {S})"
            " -> tensor<5xf32>"
        ),
        "op inferred type(s) 'tensor<3xf32>'",
    ),
    (
        f"%0 = stablehlo.get_tuple_element %t[2] : (tuple<{X}, {K}>) -> {X}",
        "index 2 is out of bounds of operand with size 2",
    ),
    (
        f'%0 = "stablehlo.optimization_barrier"(%x) : ({X}) -> {Y}',
        "op requires the same type for operand and result at index 0",
    ),
    (
        (
            f'%0 = "stablehlo.all_to_all"(%x) <{{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]>'
            f" : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}}> : ({X}) -> {X}"
        ),
        "split dimension has size 5, expected to be a multiple of split_count 2",
    ),
    (
        (
            f'%0 = "stablehlo.case"(%k) ({{\n stablehlo.return %x : {X}\n}}, {{\n stablehlo.return %y : {Y}\n}})'
            f" : ({K}) -> {X}"
        ),
        "branch 0 and branch 1 have mismatched return types",
    ),
    (
        (
            f"%0 = stablehlo.while(%a = %x) : {X} cond {{\n stablehlo.return %p : tensor<3x5xi1>\n}} do {{\n"
            f" stablehlo.return %a : {X}\n}}"
        ),
        "expect condition block return a zero-ranked tensor of i1",
    ),
    (f"%0 = stablehlo.cholesky %x : {X}", "minor dimensions of 'a' must have equal size"),
]


@pytest.mark.parametrize(("line", "message"), CASES)
def test_senseless_operations_are_reported(line: str, message: str) -> None:
    with pytest.raises(MlirError) as caught:
        parse(f"{HEAD}{line}\n  return\n}}")
    assert message in caught.value.diagnostics[0].message
    place = caught.value.diagnostics[0].location
    if "applies" not in line:  # such a reduce is located at its operands
        name = min(line.find(start) for start in ('"', "stablehlo.") if start in line)
        assert (place.line, place.column) == (2, 3 + name)


@pytest.mark.parametrize(
    "line",
    [
        f"%0 = stablehlo.add %x, %d : ({X}, tensor<?x5xf32>) -> {X}",
        "%0 = stablehlo.transpose %d, dims = [1, 0] : (tensor<?x5xf32>) -> tensor<5x7xf32>",
        "%0 = stablehlo.reshape %d : (tensor<?x5xf32>) -> tensor<35xf32>",
        f"%0 = stablehlo.concatenate %x, %d, dim = 0 : ({X}, tensor<?x5xf32>) -> tensor<?x5xf32>",
        (
            f"%0 = stablehlo.pad %d, %s, low = [1, 0], high = [0, 0], interior = [2, 0]"
            f" : (tensor<?x5xf32>, {S}) -> tensor<9x5xf32>"
        ),
    ],
)
def test_unknown_sizes_agree_with_all(line: str) -> None:
    parse(f"{HEAD}{line}\n  return\n}}")


def test_inference_reports_twice() -> None:
    line = f"%0 = stablehlo.transpose %x, dims = [1, 0] : ({X}) -> {X}"
    with pytest.raises(MlirError) as caught:
        parse(f"{HEAD}{line}\n  return\n}}")
    messages = [d.message for d in caught.value.diagnostics]
    assert messages[1:] == ["'stablehlo.transpose' op failed to infer returned types"]
