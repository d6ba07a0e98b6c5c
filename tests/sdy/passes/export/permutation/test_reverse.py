"""Reverses shard by shard, and what cannot be permuted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.sdy
from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import element_values
from emu.sdy.dialect.attributes import Mesh

HEAD = """
sdy.mesh @grid = <["x"=2, "y"=4]>
"""


PERMUTATION = "sdy-resolve-permutation-factors"


def fails(text: str, passes: str) -> str:
    module = emu.sdy.parse(HEAD + text)
    with pytest.raises(emu.sdy.PassFailed) as caught:
        emu.sdy.run_passes(module, passes)
    return str(caught.value)


def sharded(dims: str, mesh: str = "@grid") -> str:
    return f"sdy.sharding = #sdy.sharding_per_value<[<{mesh}, {dims}>]>"


# Places of "x"=2, "y":(1)2, "y":(2)2 and "z"=3 in an array of 2x2x2x3 devices.
AXES = {'"x"': 0, '"y":(1)2': 1, '"y":(2)2': 2, '"z"': 3}


@st.composite
def cuts(draw: st.DrawFn) -> list[str]:
    chosen = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, min_size=1))
    if ('"y":(1)2', '"y":(2)2') in pairwise(chosen):
        chosen.reverse()  # next to each other they would be written as one axis
    return chosen


@settings(deadline=None)
@given(cuts(), st.booleans())
def test_reverse_turns_the_mesh(axes: list[str], shuffled: bool) -> None:
    devices = np.random.default_rng(len(axes)).permutation(24) if shuffled else np.arange(24)
    listed = f", device_ids={[int(d) for d in devices]}" if shuffled else ""
    dims = f"[{{{', '.join(axes)}}}]"
    module = emu.sdy.parse(
        f"""
sdy.mesh @m = <["x"=2, "y"=4, "z"=3]{listed}>
func.func @main(%a: tensor<48xf32>) -> tensor<48xf32> {{
  %0 = stablehlo.negate %a {{{sharded(dims, "@m")}}} : tensor<48xf32>
  %1 = stablehlo.reverse %0, dims = [0] {{{sharded(dims, "@m")}}} : tensor<48xf32>
  return %1 : tensor<48xf32>
}}"""
    )
    emu.sdy.run_passes(module, PERMUTATION)
    first = next(iter(module.body()))
    mesh = first.properties["mesh"]
    assert isinstance(mesh, Mesh)
    assert first.symbol_name == "m_reversed"
    turned = np.flip(devices.reshape(2, 2, 2, 3), [AXES[axis] for axis in axes])
    assert mesh.device_ids == tuple(turned.ravel())


@settings(deadline=None)
@given(cuts())
def test_halo_goes_to_the_next_shard(axes: list[str]) -> None:
    shape = [(2, 2, 2, 3)[AXES[axis]] for axis in axes]
    count = int(np.prod(shape))
    size = 2 * count - 1
    dims = f"[{{{', '.join(axes)}}}]"
    module = emu.sdy.parse(
        f"""
sdy.mesh @m = <["x"=2, "y"=4, "z"=3]>
func.func @main(%a: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %0 = stablehlo.negate %a {{{sharded(dims, "@m")}}} : tensor<{size}xf32>
  %1 = stablehlo.reverse %0, dims = [0] {{{sharded(dims, "@m")}}} : tensor<{size}xf32>
  return %1 : tensor<{size}xf32>
}}"""
    )
    emu.sdy.run_passes(module, PERMUTATION)
    permute = next(op for op in module.walk() if op.name == "stablehlo.collective_permute")
    # Elements move by one: those of each device, and the last one of the device before.
    assert len([op for op in module.walk() if op.name == permute.name]) == (1 if count > 1 else 0)
    pairs = permute.properties["source_target_pairs"]
    assert isinstance(pairs, DenseElementsAttr)
    found = {tuple(pair) for pair in np.array([*element_values(pairs)]).reshape(-1, 2)}

    places = np.arange(24).reshape(2, 2, 2, 3)
    order = [AXES[axis] for axis in axes]
    rest = [i for i in range(4) if i not in order]
    shards = places.transpose(order + rest).reshape(count, -1)
    assert found == {
        (int(a), int(b)) for a, b in zip(shards[:-1].ravel(), shards[1:].ravel(), strict=True)
    }


def test_a_mesh_is_not_inlined() -> None:
    mesh = 'mesh<["x"=2, "y"=4]>'
    for name, rest in (("reverse", ", dims = [0]"), ("slice", " [0:2]")):
        type_ = "tensor<8xf32>" if name == "reverse" else "(tensor<8xf32>) -> tensor<2xf32>"
        result = "tensor<8xf32>" if name == "reverse" else "tensor<2xf32>"
        said = fails(
            f"""
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<{mesh}, [{{"x"}}]>}}) -> {result} {{
  %0 = stablehlo.{name} %a{rest} {{{sharded('[{"x"}]', mesh)}}} : {type_}
  return %0 : {result}
}}""",
            PERMUTATION if name == "reverse" else f"{PERMUTATION}{{enable-halo-exchange=false}}",
        )
        assert "run sdy-lift-inlined-meshes first" in said


def test_a_slice_is_sharded_as_what_it_is_of() -> None:
    said = fails(
        f"""
func.func @main(%a: tensor<8xf32>) -> tensor<2xf32> {{
  %0 = stablehlo.slice %a [0:2] {{{sharded('[{"x"}]')}}} : (tensor<8xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}""",
        PERMUTATION,
    )
    assert "operand and the result of a slice must have the same sharding" in said
