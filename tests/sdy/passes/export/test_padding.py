"""What padding to even shards refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sdy_devices import on_devices, operations

import emu.sdy

HEAD = """
sdy.mesh @grid = <["x"=2, "y"=4]>
"""


PADDING = "func.func(sdy-pad-for-divisibility)"


def fails(text: str, passes: str) -> str:
    module = emu.sdy.parse(HEAD + text)
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run_passes(module, passes)
    return str(caught.value)


def sharded(dims: str, mesh: str = "@grid") -> str:
    return f"sdy.sharding = #sdy.sharding_per_value<[<{mesh}, {dims}>]>"


@pytest.mark.parametrize(
    ("arguments", "results", "what"),
    [
        ('{sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}', "", "argument #0"),
        ("", '{sdy.sharding = #sdy.sharding<@grid, [{"y"}]>}', "result #0"),
    ],
)
def test_functions_take_and_give_even_shards(arguments: str, results: str, what: str) -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<6xf32> {arguments}) -> (tensor<6xf32> {results}) {{
  return %a : tensor<6xf32>
}}""",
        PADDING,
    )
    assert (
        f"'func.func' op {what} has a non-divisible sharding. Shardy expects function IO to be "
        "divisible."
    ) in said
    assert "failed to legalize operation 'func.func' that was explicitly marked illegal" in said


def test_elements_that_change_shards() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@grid, [{{"x"}}]>}}) -> tensor<3xf32> {{
  %0 = stablehlo.slice %a [1:4] {{{sharded('[{"x"}]')}}} : (tensor<8xf32>) -> tensor<3xf32>
  %1 = sdy.all_gather [{{"x"}}] %0 out_sharding=<@grid, [{{}}]> : tensor<3xf32>
  return %1 : tensor<3xf32>
}}""",
        PADDING,
    )
    assert "moves elements of dimension 0 between shards" in said


def test_windows_that_do_not_fill_their_shards() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@grid, [{{"x"}}]>}}, %b: tensor<f32>) -> tensor<7xf32> {{
  %0 = "stablehlo.reduce_window"(%a, %b) ({{
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %2 = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }}) {{window_dimensions = array<i64: 2>, {sharded('[{"x"}]')}}}
      : (tensor<8xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = sdy.all_gather [{{"x"}}] %0 out_sharding=<@grid, [{{}}]> : tensor<7xf32>
  return %1 : tensor<7xf32>
}}""",
        PADDING,
    )
    assert "run emu-resolve-uneven-shards first" in said


def test_operands_that_are_padded_unlike() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<7xf32>, %b: tensor<7xf32>) -> tensor<7xf32> {{
  %0 = sdy.all_slice [{{"x"}}] %a out_sharding=<@grid, [{{"x"}}]> : tensor<7xf32>
  %1 = stablehlo.add %0, %b {{{sharded('[{"x"}]')}}} : tensor<7xf32>
  %2 = sdy.all_gather [{{"x"}}] %1 out_sharding=<@grid, [{{}}]> : tensor<7xf32>
  return %2 : tensor<7xf32>
}}""",
        PADDING,
    )
    assert "Mismatched dimension sizes 8 and 7 in dimension 0" in said


def padded_program(line: str, result: str) -> str:
    return f"""
sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(%a: tensor<7x6xf32>, %b: tensor<6x3xf32>, %p: tensor<f32>) -> {result} {{
  %0 = sdy.all_slice [{{"x"}}, {{"y"}}] %a out_sharding=<@m, [{{"x"}}, {{"y"}}]> : tensor<7x6xf32>
  %1 = stablehlo.exponential %0 {{sdy.sharding = #sdy.sharding_per_value<[<@m, [{{"x"}}, {{"y"}}]>]>}}
      : tensor<7x6xf32>
  {line}
  return %3 : {result}
}}"""


EXCHANGED = """\
%2 = sdy.all_gather [{}, {"y"}] %1 out_sharding=<@m, [{"x"}, {}]> : tensor<7x6xf32>
  %z = sdy.all_to_all [{"x"}: 0->1] %2 out_sharding=<@m, [{}, {"x"}]> : tensor<7x6xf32>
  %3 = sdy.all_gather [{}, {"x"}] %z out_sharding=<@m, [{}, {}]> : tensor<7x6xf32>"""
PADDED = """\
%2 = stablehlo.pad %1, %p, low = [0, 0], high = [1, 0], interior = [0, 0]
      {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {"y"}]>]>} : (tensor<7x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %3 = sdy.all_gather [{"x"}, {"y"}] %2 out_sharding=<@m, [{}, {}]> : tensor<8x6xf32>"""
MULTIPLIED = """\
%w = sdy.all_gather [{"x"}, {}] %1 out_sharding=<@m, [{}, {"y"}]> : tensor<7x6xf32>
  %v = sdy.all_slice [{"x"}, {}] %b out_sharding=<@m, [{"x"}, {}]> : tensor<6x3xf32>
  %u = stablehlo.exponential %v {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>} : tensor<6x3xf32>
  %t = sdy.all_gather [{}, {"y"}] %w out_sharding=<@m, [{}, {}]> : tensor<7x6xf32>
  %s = sdy.all_slice [{}, {"x"}] %t out_sharding=<@m, [{}, {"x"}]> : tensor<7x6xf32>
  %r = stablehlo.exponential %s {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {"x"}]>]>} : tensor<7x6xf32>
  %2 = stablehlo.dot_general %r, %u, contracting_dims = [1] x [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>]>} : (tensor<7x6xf32>, tensor<6x3xf32>) -> tensor<7x3xf32>
  %3 = sdy.all_reduce {"x"} %2 out_sharding=<@m, [{}, {}]> : tensor<7x3xf32>"""


@pytest.mark.parametrize(
    ("line", "result"),
    [(EXCHANGED, "tensor<7x6xf32>"), (PADDED, "tensor<8x6xf32>"), (MULTIPLIED, "tensor<7x3xf32>")],
    ids=["all_to_all", "pad", "dot_general"],
)
def test_values_of_padded_programs(line: str, result: str) -> None:
    """The exponential makes ones of the padding's zeros, which must not be seen."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 3, shape).astype(np.float32) / 4 for shape in ((7, 6), (6, 3)))
    passes = "sdy-pad-for-divisibility,sdy-convert-global-to-local"
    (got,) = on_devices(
        padded_program(line, result),
        a,
        b,
        np.float32(-5.0)[()] + np.zeros((), np.float32),
        passes=passes,
    )
    e = np.exp(a)
    expected = {
        "tensor<7x6xf32>": e,
        "tensor<8x6xf32>": np.concatenate([e, np.full((1, 6), -5, np.float32)]),
        "tensor<7x3xf32>": np.exp(e) @ np.exp(b),
    }[result]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_padding_is_overwritten_where_a_pad_shows_it() -> None:
    """Shardy overwrites it only where less is added at the end; here more is."""
    text = """
sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}, %p: tensor<f32>) -> tensor<10xf32> {
  %0 = stablehlo.slice %a [0:7] {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : (tensor<8xf32>) -> tensor<7xf32>
  %1 = stablehlo.pad %0, %p, low = [1], high = [2], interior = [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : (tensor<7xf32>, tensor<f32>) -> tensor<10xf32>
  %2 = sdy.all_gather [{"x"}] %1 out_sharding=<@m, [{}]> : tensor<10xf32>
  return %2 : tensor<10xf32>
}"""
    for option, count in (("true", 1), ("false", 0)):
        found = operations(text, f"sdy-pad-for-divisibility{{fix-wrong-results={option}}}")
        assert [op.name for op in found].count("stablehlo.select") == count


def test_a_loop_over_uneven_shards() -> None:
    text = """
sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<6x3xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<6x3xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<3x3xf32>
    %h = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<6x3xf32>, tensor<3x3xf32>) -> tensor<6x3xf32>
    %t = stablehlo.cosine %h : tensor<6x3xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<6x3xf32>
  }
  return %0#1 : tensor<6x3xf32>
}"""
    (a,) = (np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32) for _ in range(1))
    expected = a.astype(float)
    for _ in range(3):
        expected = np.cos(expected @ (expected.T @ expected))
    (got,) = on_devices(text, a)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
