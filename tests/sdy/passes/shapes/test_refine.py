"""The program of one set of shapes: each operation that takes a shape as an operand becomes one that does not."""

from __future__ import annotations

import numpy as np
import pytest

import emu.sdy
from emu.sdy.execution.errors import ExecutionError


def refined(text: str, *types: str) -> str:
    module = emu.sdy.parse(text)
    emu.sdy.run_passes(module, f"emu-refine-shapes{{types={','.join(types)}}}")
    return str(module)


SIZE = "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>"
SHAPE = f"""
  {SIZE}
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %n1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
"""
X = "tensor<?x4xf32>"
BODIES = {
    "broadcast": (
        f"""%c = stablehlo.constant dense<2.0> : tensor<4xf32>
  %r = stablehlo.dynamic_broadcast_in_dim %c, %shape, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> {X}""",
        X,
        lambda x: np.full(x.shape, 2, x.dtype),
    ),
    "iota": (
        f"%r = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi32>) -> {X}",
        X,
        lambda x: np.broadcast_to(np.arange(len(x), dtype=x.dtype)[:, None], x.shape),
    ),
    "reshape": (
        f"""%size = stablehlo.multiply %n1, %four : tensor<1xi32>
  %r = stablehlo.dynamic_reshape %x, %size : ({X}, tensor<1xi32>) -> tensor<?xf32>""",
        "tensor<?xf32>",
        lambda x: x.reshape(-1),
    ),
    "slice": (
        f"""%two = stablehlo.constant dense<2> : tensor<2xi32>
  %one = stablehlo.constant dense<1> : tensor<2xi32>
  %r = stablehlo.real_dynamic_slice %x, %one, %shape, %two
      : ({X}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>""",
        "tensor<?x?xf32>",
        lambda x: x[1::2, 1::2],
    ),
    "dynamic_slice": (
        f"""%i = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : ({X}, tensor<f32>) -> tensor<f32>
  %j = stablehlo.convert %i : (tensor<f32>) -> tensor<i32>
  %k = stablehlo.subtract %j, %j : tensor<i32>
  %start = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i32>) -> tensor<2xi32>
  %limit = stablehlo.add %start, %shape : tensor<2xi32>
  %one = stablehlo.constant dense<1> : tensor<2xi32>
  %r = stablehlo.real_dynamic_slice %x, %start, %limit, %one
      : ({X}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>""",
        "tensor<?x?xf32>",
        lambda x: x,
    ),
    "pad": (
        f"""%no = stablehlo.constant dense<0> : tensor<2xi32>
  %r = stablehlo.dynamic_pad %x, %zero, %no, %shape, %no
      : ({X}, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>""",
        "tensor<?x?xf32>",
        lambda x: np.pad(x, ((0, len(x)), (0, 4))),
    ),
    "gather": (
        f"""%i = stablehlo.constant dense<1> : tensor<1xi32>
  %ones = stablehlo.constant dense<1> : tensor<1xi32>
  %sizes = stablehlo.concatenate %n1, %ones, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %r = "stablehlo.dynamic_gather"(%x, %i, %sizes) {{dimension_numbers = #stablehlo.gather<
      offset_dims = [0, 1], start_index_map = [1]>}} : ({X}, tensor<1xi32>, tensor<2xi32>) -> tensor<?x1xf32>""",
        "tensor<?x1xf32>",
        lambda x: x[:, 1:2],
    ),
    "while": (
        f"""%w:3 = stablehlo.while(%i = %n, %m = %n, %y = %x) : tensor<i32>, tensor<i32>, {X}
    cond {{
      %p = stablehlo.compare GT, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %b1 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
      %b2 = stablehlo.concatenate %b1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %b = stablehlo.dynamic_broadcast_in_dim %onef, %b2, dims = [] : (tensor<f32>, tensor<2xi32>) -> {X}
      %s = stablehlo.add %y, %b : {X}
      %d = stablehlo.subtract %i, %c1 : tensor<i32>
      stablehlo.return %d, %m, %s : tensor<i32>, tensor<i32>, {X}
    }}
  %r = stablehlo.abs %w#2 : {X}""",
        X,
        lambda x: np.abs(x + len(x)),
    ),
    "case": (
        f"""%r = "stablehlo.case"(%c1) ({{
    stablehlo.return %x : {X}
  }}, {{
    %t = stablehlo.add %x, %x : {X}
    stablehlo.return %t : {X}
  }}) : (tensor<i32>) -> {X}""",
        X,
        lambda x: 2 * x,
    ),
    "product": (
        f"""%r = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
      : ({X}, {X}) -> tensor<?x?xf32>""",
        "tensor<?x?xf32>",
        lambda x: x @ x.T,
    ),
    "shapes of a call": (
        """%h = func.call @half(%n) : (tensor<i32>) -> tensor<i32>
  %h1 = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_iota %h1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>""",
        "tensor<?xf32>",
        lambda x: np.arange(len(x) // 2, dtype=x.dtype),
    ),
    "bounded": (
        f"""%r = stablehlo.set_dimension_size %x, %c1, dim = 1
      : ({X}, tensor<i32>) -> tensor<?x?xf32, #stablehlo.bounds<?, 4>>""",
        "tensor<?x?xf32, #stablehlo.bounds<?, 4>>",
        lambda x: x[:, :1],
    ),
}


def program(name: str) -> str:
    body, result, _ = BODIES[name]
    return f"""
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: {X} {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}, {{}}]>}}) -> {result} {{
  {SHAPE}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %onef = stablehlo.constant dense<1.0> : tensor<f32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  {body}
  return %r : {result}
}}
func.func private @half(%n: tensor<i32>) -> tensor<i32> {{
  %two = stablehlo.constant dense<2> : tensor<i32>
  %h = stablehlo.divide %n, %two : tensor<i32>
  return %h : tensor<i32>
}}
"""


@pytest.mark.parametrize("name", list(BODIES))
def test_shapes_are_static(name: str) -> None:
    text = refined(program(name), "tensor<6x4xf32>")
    assert "?" not in text
    assert "set_dimension_size" not in text
    assert "dynamic_iota" not in text
    assert "real_dynamic" not in text
    assert "dynamic_pad" not in text
    assert "dynamic_gather" not in text
    assert "dynamic_broadcast" not in text
    assert "dynamic_reshape" not in text
    assert "get_dimension_size" not in text


@pytest.mark.parametrize("name", list(BODIES))
def test_programs_compute_what_they_say(name: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(6, 4) - 7
    module = emu.sdy.parse(program(name).replace('"a"=2', '"a"=1'))
    (found,) = emu.sdy.run(module, x)
    np.testing.assert_array_equal(found, BODIES[name][2](x))


ASSERTED = f"""
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: {X} {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}, {{}}]>}}, %y: tensor<4xf32>) -> {X} {{
  {SIZE}
  %two = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %rest = stablehlo.remainder %n, %two : tensor<i32>
  %even = stablehlo.compare EQ, %rest, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%even, %n) {{has_side_effect = true,
      error_message = "n must be even, but is {{0}}"}} : (tensor<i1>, tensor<i32>) -> ()
  %0 = stablehlo.add %x, %x : {X}
  return %0 : {X}
}}
"""


def test_a_program_of_any_shape_runs_on_pes() -> None:
    with emu.sdy.compile(emu.sdy.parse(ASSERTED), check="unsharded") as program:
        assert program.n_devices == 2
        assert not hasattr(program, "partitioned")
        for count in (4, 6, 4):
            x = np.ones((count, 4), np.float32)
            (found,) = program(x, np.ones(4, np.float32))
            np.testing.assert_array_equal(found, 2 * x)
            assert program.verdict is not None
            assert program.partitioned.inputs[0].local_shape == (count // 2, 4)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 4), "n must be even, but is 3"),
        ((4, 5), r"input 0 must be tensor<\?x4xf32>, but is tensor<4x5xf32>"),
        ((4,), r"input 0 must be tensor<\?x4xf32>, but is tensor<4xf32>"),
        ((2, 4, 1), r"input 0 must be tensor<\?x4xf32>"),
    ],
)
def test_wrong_shapes_are_errors(shape: tuple[int, ...], message: str) -> None:
    program = emu.sdy.compile(emu.sdy.parse(ASSERTED))
    with pytest.raises(ExecutionError, match=message):
        program(np.ones(shape, np.float32), np.ones(4, np.float32))


def test_wrong_inputs_are_errors() -> None:
    program = emu.sdy.compile(emu.sdy.parse(ASSERTED))
    y = np.ones(4, np.float32)
    with pytest.raises(ExecutionError, match="takes 2 inputs, but got 1"):
        program(np.ones((4, 4), np.float32))
    with pytest.raises(ExecutionError, match="input 1 must be tensor<4xf32>, but is float32"):
        program(np.ones((4, 4), np.float32), np.ones(5, np.float32))
    with pytest.raises(ExecutionError, match="input 0 must be tensor<4x4xf32>, but is float64"):
        program(np.ones((4, 4)), y)
    with pytest.raises(ExecutionError, match="input 0 must be one array"):
        program([np.ones((2, 4), np.float32)] * 2, y)


def test_bounds_are_checked() -> None:
    text = """
func.func @main(%x: tensor<?xf32, #stablehlo.bounds<5>>) -> tensor<?xf32, #stablehlo.bounds<5>> {
  %0 = stablehlo.add %x, %x : tensor<?xf32, #stablehlo.bounds<5>>
  return %0 : tensor<?xf32, #stablehlo.bounds<5>>
}
"""
    program = emu.sdy.compile(emu.sdy.parse(text))
    (found,) = program(np.ones(5, np.float32))
    np.testing.assert_array_equal(found, np.full(5, 2, np.float32))
    with pytest.raises(ExecutionError, match="at most 5 elements in dimension 0, but has 6"):
        program(np.ones(6, np.float32))


def test_a_shape_that_depends_on_values_is_an_error() -> None:
    text = f"""
func.func @main(%x: {X}, %s: tensor<1xi32>) -> tensor<?xf32> {{
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}}
"""
    with pytest.raises(ExecutionError, match="its shape depends on more than the shapes"):
        emu.sdy.run(emu.sdy.parse(text), np.ones((4, 4), np.float32), np.array([3], np.int32))


def test_a_wrong_type_is_an_error() -> None:
    with pytest.raises(emu.sdy.PassFailed, match="types must be types of MLIR"):
        refined(program("pad"), "tensor<6")
    with pytest.raises(emu.sdy.PassFailed, match="takes 1 inputs, but got 2"):
        refined(program("pad"), "tensor<6x4xf32>", "tensor<f32>")


def test_a_manual_computation_gets_shards() -> None:
    text = refined(
        """
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}, {}]>]
      out_shardings=[<@mesh, [{}, {"a"}]>] manual_axes={"a"} (%y: tensor<?x4xf32>) {
    %1 = "stablehlo.all_to_all"(%y) {split_dimension = 1 : i64, concat_dimension = 0 : i64,
        split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<?x4xf32>) -> tensor<?x2xf32>
    sdy.return %1 : tensor<?x2xf32>
  } : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
""",
        "tensor<6x4xf32>",
    )
    assert "(tensor<3x4xf32>) -> tensor<6x2xf32>" in text
    assert "?" not in text
