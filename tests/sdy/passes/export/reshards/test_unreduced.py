"""Partial sums that cannot be resharded."""

from __future__ import annotations

import pytest

import emu.sdy

HEAD = """
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @turned = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
"""


RESHARDS = "func.func(sdy-insert-explicit-reshards{enable-full-version=true})"


def sharding(dims: str, *, mesh: str = "@grid", unreduced: str = "") -> str:
    tail = f", unreduced={{{unreduced}}}" if unreduced else ""
    return f"sdy.sharding = #sdy.sharding<{mesh}, {dims}{tail}>"


def fails(text: str, passes: str) -> str:
    module = emu.sdy.parse(HEAD + text)
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run_passes(module, passes)
    return str(caught.value)


def test_partial_sums_need_a_result() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<4xf32> {{{sharding("[{}]", unreduced='"x"')}}}) {{
  stablehlo.custom_call @sink(%a) {{has_side_effect = true}} : (tensor<4xf32>) -> ()
  return
}}""",
        RESHARDS,
    )
    assert "unreduced axes but the operation has no results" in said
    assert ":6:3: " in said


def test_results_are_unreduced_alike() -> None:
    said = fails(
        """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = stablehlo.custom_call @two(%a) {sdy.sharding = #sdy.sharding_per_value<[
      <@grid, [{}], unreduced={"x"}>, <@grid, [{}]>]>}
      : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}""",
        RESHARDS,
    )
    assert "Unreduced axes mismatch between results" in said


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        (
            sharding("[{}]", unreduced='"x"'),
            sharding("[{}]", mesh="@turned"),
            "source and user shardings have different meshes for unreduced axes",
        ),
        (
            sharding("[{}]"),
            sharding("[{}]", mesh="@turned", unreduced='"x"'),
            "Input and output shardings have different meshes",
        ),
    ],
)
def test_partial_sums_stay_on_their_mesh(given: str, wanted: str, message: str) -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<4xf32> {{{given}}}) -> (tensor<4xf32> {{{wanted}}}) {{
  return %a : tensor<4xf32>
}}""",
        RESHARDS,
    )
    assert message in said


def test_a_reshard_cannot_exchange_partial_sums() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<4xf32> {{{sharding("[{}]", unreduced='"x"')}}}) -> tensor<4xf32> {{
  %0 = sdy.reshard %a <@grid, [{{}}], unreduced={{"y"}}> : tensor<4xf32>
  return %0 : tensor<4xf32>
}}""",
        RESHARDS,
    )
    assert "Both input and output have unreduced axes" in said
