"""Which operations become one kernel, and in which order what is left runs."""

from __future__ import annotations

import numpy as np
from stablehlo_fusion import check_same, evaluate_fused, parse, reference, steps_of

from emu.stablehlo.compiled.fusion import Group


def names(text: str) -> list[object]:
    """Return the steps of a program: the names of a group's operations, or that of one that stands alone."""

    def short(name: str) -> str:
        return name.partition(".")[2]

    return [
        [short(op.name) for op in step.operations] if isinstance(step, Group) else short(step.name)
        for step in steps_of(parse(text))
    ]


def test_softmax_is_one_group() -> None:
    text = """
    func.func @main(%a: tensor<8x50xf32>) -> tensor<8x50xf32> {
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x50xf32>, tensor<f32>) -> tensor<8xf32>
      %1 = stablehlo.reshape %0 : (tensor<8xf32>) -> tensor<8x1xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x50xf32>
      %3 = stablehlo.subtract %a, %2 : tensor<8x50xf32>
      %4 = stablehlo.exponential %3 : tensor<8x50xf32>
      %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x50xf32>, tensor<f32>) -> tensor<8xf32>
      %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x50xf32>
      %7 = stablehlo.divide %4, %6 : tensor<8x50xf32>
      return %7 : tensor<8x50xf32>
    }
    """
    assert names(text) == [["reduce", "subtract", "exponential", "reduce", "divide"]]


def test_what_depends_on_an_operation_between_is_no_part_of_the_group() -> None:
    text = """
    func.func @main(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %0 = stablehlo.negate %a : tensor<16x16xf32>
      %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %2 = stablehlo.add %0, %1 : tensor<16x16xf32>
      %3 = stablehlo.abs %2 : tensor<16x16xf32>
      return %3 : tensor<16x16xf32>
    }
    """
    assert names(text) == [["negate"], "dot_general", ["add", "abs"]]


def test_groups_that_depend_on_each_other_are_not_joined() -> None:
    """The last sum needs both groups, between which a product stands, as it must stay."""
    text = """
    func.func @main(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
      %0 = stablehlo.negate %a : tensor<16x16xf32>
      %1 = stablehlo.abs %b : tensor<16x16xf32>
      %2 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %3 = stablehlo.add %1, %2 : tensor<16x16xf32>
      %4 = stablehlo.multiply %3, %0 : tensor<16x16xf32>
      return %4, %1 : tensor<16x16xf32>, tensor<16x16xf32>
    }
    """
    module = parse(text)
    assert names(text)[1:] == ["dot_general", ["abs", "add", "multiply"]]
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 3, (16, 16)).astype(np.float32) for _ in range(2)]
    check_same(evaluate_fused(module, *inputs), reference(module, *inputs))


def test_what_is_moved_beyond_reading_through_is_no_part_of_its_source_s_group() -> None:
    text = """
    func.func @main(%a: tensor<4x8xf32>) -> tensor<32xf32> {
      %0 = stablehlo.negate %a : tensor<4x8xf32>
      %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %2 = stablehlo.reshape %1 : (tensor<8x4xf32>) -> tensor<32xf32>
      %3 = stablehlo.abs %2 : tensor<32xf32>
      return %3 : tensor<32xf32>
    }
    """
    assert names(text) == [["negate"], "transpose", "reshape", ["abs"]]
    x = np.arange(-16, 16, dtype=np.float32).reshape(4, 8)
    check_same(evaluate_fused(parse(text), x), reference(parse(text), x))


def test_operations_that_move_elements_are_read_through_and_run_for_others() -> None:
    text = """
    func.func @main(%a: tensor<6xf32>, %b: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
      %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
      %1 = stablehlo.add %b, %0 : tensor<4x6xf32>
      %2 = stablehlo.reverse %0, dims = [0] : tensor<4x6xf32>
      return %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>
    }
    """
    assert sorted(map(str, names(text))) == ["['add']", "broadcast_in_dim", "reverse"]
    only = text.replace("return %1, %2 : tensor<4x6xf32>, tensor", "return %1 : tensor")
    only = only.replace("(tensor<4x6xf32>, tensor<4x6xf32>) {", "tensor<4x6xf32> {")
    assert names(only) == [["add"]]


def test_effects_keep_their_order() -> None:
    text = """
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @first(%a) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stablehlo.add %a, %a : tensor<4xf32>
      %2 = stablehlo.custom_call @second(%a) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
      %3 = stablehlo.add %1, %2 : tensor<4xf32>
      return %3 : tensor<4xf32>
    }
    """
    assert names(text) == ["custom_call", "custom_call", ["add", "add"]]


def test_values_of_no_elements_and_other_dtypes_are_left_alone() -> None:
    for type_ in (
        "tensor<0x4xf32>",
        "tensor<4xi4>",
        "tensor<4xcomplex<f32>>",
        "tensor<4xf8E4M3B11FNUZ>",
    ):
        text = f"""
        func.func @main(%a: {type_}) -> {type_} {{
          %0 = stablehlo.add %a, %a : {type_}
          return %0 : {type_}
        }}
        """
        assert names(text) == ["add"]


def test_results_of_long_blocks_are_those_of_the_reference(monkeypatch) -> None:
    monkeypatch.setattr("emu.stablehlo.compiled.fusion.grouping._CHUNK", 7)
    lines = ["  %v0 = stablehlo.negate %a : tensor<5xf32>"]
    for n in range(1, 40):
        lines += [
            f"  %c{n} = stablehlo.constant dense<{n}.0> : tensor<f32>",
            f"  %b{n} = stablehlo.broadcast_in_dim %c{n}, dims = [] : (tensor<f32>) -> tensor<5xf32>",
            f"  %v{n} = stablehlo.subtract %b{n}, %v{n - 1} : tensor<5xf32>",
        ]
    body = "\n".join(lines)
    text = f"func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {{\n{body}\n  return %v39 : tensor<5xf32>\n}}"
    module = parse(text)
    x = np.arange(5, dtype=np.float32)
    check_same(evaluate_fused(module, x), reference(module, x))
    assert all(isinstance(step, Group) for step in steps_of(module))
