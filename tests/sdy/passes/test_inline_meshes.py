"""Shardings and replica groups that contain their meshes, and back."""

from __future__ import annotations

import pytest

import emu.sdy

MESHES = """
sdy.mesh @one = <["x"=2]>
sdy.mesh @turned = <["x"=2], device_ids=[1, 0]>
"""
T = "tensor<4xf32>"


def gather(mesh: str) -> str:
    axes = '[#stablehlo.axis_ref<name = "x">]'
    return (
        '"stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = '
        f"#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = {axes}>}}> : ({T}) -> tensor<8xf32>"
    )


def program(mesh: str, meshes: str = MESHES) -> str:
    return f"{meshes}func.func @f(%a: {T}) -> tensor<8xf32> {{\n  %0 = {gather(mesh)}\n  return %0 : tensor<8xf32>\n}}\n"


def after(text: str, passes: str) -> str:
    module = emu.sdy.parse(text)
    emu.sdy.run_passes(module, passes)
    return str(module)


INLINED = [
    ("@one", '#stablehlo.mesh<axes=[<name = "x", size = 2>]>'),
    (
        "@turned",
        '#stablehlo.mesh<axes=[<name = "x", size = 2>], device_ids=dense<[1, 0]> : tensor<2xi64>>',
    ),
]


@pytest.mark.parametrize(("name", "inlined"), INLINED)
def test_replica_groups_contain_stablehlo_meshes(name: str, inlined: str) -> None:
    text = after(program(name), "sdy-inline-meshes")
    assert f"<mesh = {inlined}, axes = " in text
    assert "sdy.mesh" not in text


@pytest.mark.parametrize(("name", "inlined"), INLINED)
def test_the_order_of_devices_is_kept_both_ways(name: str, inlined: str) -> None:
    # Shardy's pass forgets device ids, and so the groups would be those of other devices.
    lifted = after(program(inlined, ""), "sdy-lift-inlined-meshes")
    assert "mesh = @mesh, " in lifted
    assert f"<mesh = {inlined}, axes = " in after(lifted, "sdy-inline-meshes")
    assert ("device_ids=[1, 0]>" in lifted) == (name == "@turned")


def test_meshes_of_both_dialects_are_lifted_apart() -> None:
    text = program(INLINED[0][1], "").replace(
        "%a: tensor<4xf32>",
        '%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}',
    )
    lifted = after(text, "sdy-lift-inlined-meshes")
    assert '#sdy.sharding<@mesh, [{"x"}]>' in lifted
    assert "mesh = @mesh_0, " in lifted


def test_a_mesh_that_nobody_knows_stays() -> None:
    text = program("@nobody")
    assert "mesh = @nobody, " in after(text, "sdy-inline-meshes")
    assert "mesh = @nobody, " in after(text, "sdy-lift-inlined-meshes")


def test_shardings_contain_their_meshes() -> None:
    text = f"""{MESHES}
func.func @f(%a: {T} {{sdy.sharding = #sdy.sharding<@turned, [{{"x"}}], unreduced=max{{"y"}}>}}) {{
  return
}}
""".replace('"x"=2], device', '"x"=2, "y"=1], device')
    assert (
        '#sdy.sharding<mesh<["x"=2, "y"=1], device_ids=[1, 0]>, [{"x"}], unreduced=max{"y"}>'
    ) in after(text, "sdy-inline-meshes")
