"""What padding to even shards refuses."""

from __future__ import annotations

import pytest

import emu.sdy

HEAD = """
sdy.mesh @grid = <["x"=2, "y"=4]>
"""


PADDING = "func.func(sdy-pad-for-divisibility)"


def fails(text: str, passes: str) -> str:
    module = emu.sdy.parse(HEAD + text)
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run(module, passes)
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
