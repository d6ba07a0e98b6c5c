"""What passes say when a module is not as they need it."""

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


def test_reduced_dimensions_must_agree_without_reshards() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<4x8xf32> {{{sharding('[{}, {"x"}]')}}},
                %b: tensor<8x4xf32> {{{sharding('[{"y"}, {}]')}}}) -> tensor<4x4xf32> {{
  %0 = stablehlo.dot %a, %b {{sdy.sharding = #sdy.sharding_per_value<[
      <@grid, [{{}}, {{}}], unreduced={{"x"}}>]>}}
      : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}}""",
        "func.func(sdy-insert-explicit-reshards)",
    )
    assert "incompatible sharding along reduction factors" in said


def test_inlined_meshes_are_lifted_before() -> None:
    inlined = 'mesh<["x"=2, "y"=4]>'
    said = fails(
        f"""
func.func @main(%a: tensor<4xf32> {{{sharding("[{}]", mesh=inlined)}}}) -> tensor<4xf32> {{
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}}""",
        RESHARDS,
    )
    assert "sdy-lift-inlined-meshes" in said


def test_reshards_to_one_device_stay() -> None:
    module = emu.sdy.parse(
        f"""{HEAD}
sdy.mesh @last = <[], device_ids=[7]>
func.func @main(%a: tensor<4xf32> {{{sharding('[{"x"}]')}}}) -> tensor<4xf32> {{
  %0 = stablehlo.abs %a {{sdy.sharding = #sdy.sharding_per_value<[<@grid, [{{"x"}}]>]>}} : tensor<4xf32>
  %1 = sdy.reshard %0 <@last, []> : tensor<4xf32>
  %2 = sdy.reshard %1 <@grid, [{{}}]> : tensor<4xf32>
  return %2 : tensor<4xf32>
}}"""
    )
    before = str(module)
    emu.sdy.run_passes(module, "func.func(sdy-reshard-to-collectives)")
    assert str(module) == before


@pytest.mark.parametrize(
    ("kind", "argument", "result"),
    [("argument", "@last, []", "@grid, [{}]"), ("result", "@grid, [{}]", "@last, []")],
)
def test_functions_are_not_on_one_device(kind: str, argument: str, result: str) -> None:
    said = fails(
        f"""
sdy.mesh @last = <[], device_ids=[7]>
func.func @other(%a: tensor<4xf32>) -> tensor<4xf32> {{
  return %a : tensor<4xf32>
}}
func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<{argument}>}})
    -> (tensor<4xf32> {{sdy.sharding = #sdy.sharding<{result}>}}) {{
  return %a : tensor<4xf32>
}}""",
        RESHARDS,
    )
    assert (
        f"'func.func' op function {kind} 0 cannot have a single-device (maximal) sharding attribute"
    ) in said


def test_what_is_on_one_device_is_not_cut() -> None:
    module = emu.sdy.parse("""
sdy.mesh @last = <[], device_ids=[7]>
func.func @main(%a: tensor<5xf32> {sdy.sharding = #sdy.sharding<@last, []>}) -> tensor<5xf32> {
  return %a : tensor<5xf32>
}""")
    before = emu.sdy.to_text(module)
    emu.sdy.run_passes(module, "sdy-update-non-divisible-input-output-shardings")
    assert emu.sdy.to_text(module) == before


def test_one_device_is_the_same_behind_a_transpose() -> None:
    module = emu.sdy.parse("""
sdy.mesh @last = <[], device_ids=[7]>
func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = sdy.reshard %0 <@last, []> : tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}""")
    before = emu.sdy.to_text(module)
    emu.sdy.run_passes(module, "canonicalize")
    assert emu.sdy.to_text(module) == before
