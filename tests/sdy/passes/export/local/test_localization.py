"""Shards and groups of devices."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse
from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.dense import element_values
from emu.mlir.diagnostics import Diagnostics
from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis, SubAxisInfo
from emu.sdy.passes.export.local.localization import Localization, Options


@st.composite
def meshes_and_axes(draw: st.DrawFn) -> tuple[Mesh, list[AxisRef]]:
    """A mesh, and pieces of its axes of which no two share anything."""
    cuts = draw(st.lists(st.lists(st.integers(2, 3), min_size=1, max_size=3), max_size=3))
    axes = tuple(MeshAxis(f"a{i}", math.prod(sizes)) for i, sizes in enumerate(cuts))
    count = math.prod(axis.size for axis in axes)
    devices = tuple(draw(st.permutations(range(count)))) if axes else ()
    pieces = []
    for i, sizes in enumerate(cuts):
        for place, size in enumerate(sizes):
            sub = SubAxisInfo(math.prod(sizes[:place]), size)
            pieces.append(AxisRef(f"a{i}", sub if len(sizes) > 1 else None))
    return Mesh(axes, devices), draw(st.permutations(pieces))


@settings(deadline=None)
@given(meshes_and_axes(), st.integers(0, 9))
def test_shards_are_spread_evenly(case: tuple[Mesh, list[AxisRef]], kept: int) -> None:
    mesh, axes = case
    axes = axes[:kept]
    module = parse("")
    state = Localization(module, Options(), Diagnostics())
    indices = state.shard_indices(module, mesh, axes)
    shards = math.prod(axis.size(mesh) for axis in axes)
    assert len(indices) == mesh.total_size
    assert all(indices.count(shard) == mesh.total_size // shards for shard in range(shards))


@settings(deadline=None)
@given(meshes_and_axes())
def test_devices_of_a_group_have_all_shards_in_order(case: tuple[Mesh, list[AxisRef]]) -> None:
    """What is sliced along axes and gathered along them comes back."""
    mesh, axes = case
    module = parse("")
    state = Localization(module, Options(), Diagnostics())
    indices = state.shard_indices(module, mesh, axes)
    groups, size = state.groups(axes, mesh, mesh)
    assert isinstance(groups, DenseElementsAttr)
    devices = list(element_values(groups))
    if len(devices) == mesh.total_size:
        assert [indices[device] for device in devices] == [*range(size)] * (len(devices) // size)
