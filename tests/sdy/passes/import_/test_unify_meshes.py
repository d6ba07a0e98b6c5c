"""Meshes of several axes become meshes of the same axes, and each device keeps its shard."""

from __future__ import annotations

import random

import numpy as np
import pytest

import emu.sdy
from emu.mlir.types import FloatType, TensorType
from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis, SubAxisInfo, TensorSharding
from emu.sdy.dialect.functions import func_arg_sharding
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.execution.partitioned import main_function
from emu.sdy.execution.shards import Placement
from emu.sdy.passes.import_.mesh_refinement import refine

F32 = FloatType("f32")
ORDERED = {
    8: [(8,), (2, 4), (4, 2), (2, 2, 2), (4,), (2,), (1, 8), (2, 1, 4)],
    12: [(12,), (2, 6), (3, 4), (4, 3), (2, 2, 3), (3, 2, 2), (6,), (4,), (1,), (6, 2), (3,)],
}


def _random_mesh(rng: random.Random, sizes: tuple[int, ...]) -> Mesh:
    axes = tuple(MeshAxis(name, size) for name, size in zip("abc", sizes, strict=False))
    count = Mesh(axes).total_size
    kind = rng.random()
    devices = list(range(count))
    if kind < 0.2:
        rng.shuffle(devices)
    elif kind < 0.4:
        order = rng.sample(range(len(sizes)), len(sizes))
        devices = [int(i) for i in np.arange(count).reshape(sizes).transpose(order).ravel()]
    return Mesh(axes, tuple(devices))


def _random_axes(rng: random.Random, mesh: Mesh) -> list[AxisRef]:
    axes = []
    for axis in rng.sample(mesh.axes, rng.randint(0, len(mesh.axes))):
        sub = SubAxisInfo(rng.choice([1, 2]), 2) if axis.size == 4 and rng.random() < 0.3 else None
        axes.append(AxisRef(axis.name, sub))
    return axes


@pytest.mark.parametrize("seed", range(200))
def test_devices_keep_their_shards(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([8, 12])
    shapes = rng.sample(ORDERED[count], rng.randint(1, 4))
    meshes = {f"m{i}": _random_mesh(rng, sizes) for i, sizes in enumerate(shapes)}
    refined = refine(meshes, count)
    assert len({each.mesh.axes for each in refined.values()}) == 1
    type_ = TensorType((48, 48), F32)
    for name, mesh in meshes.items():
        to = refined[name]
        assert to.mesh.total_size == count
        axes = _random_axes(rng, mesh)
        cut = rng.randint(0, len(axes))
        parts = [axes[:cut], axes[cut:]]
        old = Placement(type_, TensorSharding.closed_with(name, parts), mesh)
        new = TensorSharding.closed_with(name, [to.replace_all(part) for part in parts])
        moved = Placement(type_, new, to.mesh)
        assert moved.local_shape == old.local_shape
        for device in range(count):
            assert moved.starts(device) == old.starts(device % mesh.total_size)


def test_meshes_of_ordered_axes_become_one() -> None:
    meshes = {
        "m": Mesh((MeshAxis("data", 2), MeshAxis("model", 4))),
        "flat": Mesh((MeshAxis("all", 8),)),
        "other": Mesh((MeshAxis("a", 4), MeshAxis("data", 2))),
    }
    refined = refine(meshes, 8)
    assert len({each.mesh for each in refined.values()}) == 1
    assert refined["m"].axes == {"data": ("data",), "model": ("model_0", "data_0")}
    assert refined["flat"].axes == {"all": ("data", "model_0", "data_0")}
    assert refined["other"].axes == {"a": ("data", "model_0"), "data": ("data_0",)}


PROGRAM = """
sdy.mesh @mesh = <["a"=2, "b"=3]>
sdy.mesh @turned = <["c"=3, "d"=2]>
sdy.mesh @flat = <["f"=6]>
sdy.mesh @small = <["s"=3]>
func.func @main(%x: tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>},
    %y: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@small, [{"s"}, {}]>})
    -> (tensor<6x6xf32>, tensor<6x12xf32> {sdy.sharding = #sdy.sharding<@flat, [{"f"}, {}]>}) {
  %0 = sdy.sharding_constraint %x <@turned, [{"c"}, {}]> : tensor<6x12xf32>
  %1 = stablehlo.add %0, %0 : tensor<6x12xf32>
  %2 = stablehlo.dot_general %1, %y, contracting_dims = [1] x [0]
      : (tensor<6x12xf32>, tensor<12x6xf32>) -> tensor<6x6xf32>
  %3 = sdy.sharding_constraint %2 <mesh<["i"=2, "j"=3]>, [{"j"}, {"i"}]> : tensor<6x6xf32>
  %4 = stablehlo.add %x, %1 : tensor<6x12xf32>
  %5 = sdy.manual_computation(%4) in_shardings=[<@turned, [{}, {"c"}]>]
      out_shardings=[<@turned, [{}, {"c"}]>] manual_axes={"c"} (%z: tensor<6x4xf32>) {
    %7 = stablehlo.add %z, %z : tensor<6x4xf32>
    sdy.return %7 : tensor<6x4xf32>
  } : (tensor<6x12xf32>) -> tensor<6x12xf32>
  %6 = sdy.manual_computation(%5) in_shardings=[<@flat, [{"f"}, {}]>]
      out_shardings=[<@flat, [{"f"}, {}]>] manual_axes={"f"} (%z: tensor<1x12xf32>) {
    %7 = "stablehlo.collective_permute"(%z) {source_target_pairs =
        dense<[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]]> : tensor<6x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}
        : (tensor<1x12xf32>) -> tensor<1x12xf32>
    sdy.return %7 : tensor<1x12xf32>
  } : (tensor<6x12xf32>) -> tensor<6x12xf32>
  return %3, %6 : tensor<6x6xf32>, tensor<6x12xf32>
}
"""


def test_a_program_on_five_meshes_runs() -> None:
    x = np.arange(72, dtype=np.float32).reshape(6, 12)
    y = np.arange(72, dtype=np.float32).reshape(12, 6) % 7
    product, rolled = emu.sdy.run(emu.sdy.parse(PROGRAM), x, y, check="unsharded")
    np.testing.assert_array_equal(product, 2 * x @ y)
    np.testing.assert_array_equal(rolled, np.roll(6 * x, 1, axis=0))


def test_explicit_collectives_and_replica_groups_follow() -> None:
    module = emu.sdy.parse("""
sdy.mesh @mesh = <["x"=2, "y"=2]>
sdy.mesh @flat = <["f"=4]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@flat, [{"f"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = sdy.all_to_all [{"f":(2)2}: 0->1] %x out_sharding=<@flat, [{"f":(1)2}, {"f":(2)2}]> : tensor<8x8xf32>
  %1 = sdy.all_gather [{}, {"f":(2)2}] %0 out_sharding=<@flat, [{"f":(1)2}, {}]> : tensor<8x8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x", "y"} (%y: tensor<4x8xf32>) {
    %3 = "stablehlo.all_reduce"(%y) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @flat,
        axes = [#stablehlo.axis_ref<name = "f">]>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %3 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
""")
    emu.sdy.run_passes(module, "emu-unify-meshes")
    text = str(module)
    assert 'sdy.all_to_all [{"y"}: 0->1] %arg0 out_sharding=<@mesh, [{"x"}, {"y"}]>' in text
    assert 'sdy.all_gather [{}, {"y"}]' in text
    assert (
        'mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y">]'
        in text
    )
    assert "@flat" not in text


def test_a_smaller_mesh_is_repeated() -> None:
    module = emu.sdy.parse("""
sdy.mesh @pair = <["p"=2]>
sdy.mesh @mesh = <["x"=8]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@pair, [{"p"}]>},
    %y: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
""")
    emu.sdy.run_passes(module, "emu-unify-meshes")
    main = main_function(module)
    sharding, single = (func_arg_sharding(main, index) for index in range(2))
    assert sharding is not None
    assert single is not None
    mesh = get_mesh(module, sharding.mesh)
    placement = Placement(TensorType((8,), F32), sharding, mesh)
    assert [placement.starts(device)[0] for device in range(8)] == [0, 4] * 4
    assert single.mesh == "one"


def test_sizes_that_do_not_divide_are_an_error() -> None:
    module = emu.sdy.parse("""
sdy.mesh @mesh = <["x"=4]>
sdy.mesh @odd = <["y"=3]>
func.func @main(%x: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<12xf32> {sdy.sharding = #sdy.sharding<@odd, [{"y"}]>}) {
  return %x : tensor<12xf32>
}
""")
    with pytest.raises(
        emu.sdy.PassFailed, match="mesh @odd has 3 devices, which do not divide the 4"
    ):
        emu.sdy.compile(module)


def test_one_mesh_stays() -> None:
    text = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<12xf32> {
  return %x : tensor<12xf32>
}
"""
    module, lifted = emu.sdy.parse(text), emu.sdy.parse(text)
    emu.sdy.run_passes(module, "emu-unify-meshes")
    emu.sdy.run_passes(lifted, "sdy-lift-inlined-meshes")
    assert str(module) == str(lifted)
