"""Shards and the arrays that they are parts of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir.types import FloatType, TensorType
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
)
from emu.sdy.execution.shards import Placement, coordinates


@st.composite
def placements(draw) -> Placement:
    """A tensor of any sharding along the axes of a mesh and halves of one, even or not."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3))
    axes = tuple(MeshAxis(name, size) for name, size in zip("xyz", sizes, strict=False))
    count = math.prod(sizes)
    ids = tuple(draw(st.permutations(range(count)))) if draw(st.booleans()) else ()
    mesh = Mesh(axes, ids)
    free = []
    for axis in axes:
        if axis.size == 4 and draw(st.booleans()):
            free += [AxisRef(axis.name, SubAxisInfo(1, 2)), AxisRef(axis.name, SubAxisInfo(2, 2))]
        else:
            free.append(AxisRef(axis.name))
    free = draw(st.permutations(free))
    rank = draw(st.integers(0, 3))
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    for axis in free:
        where = draw(st.integers(0, rank))  # the last one: replicated
        if where < rank:
            dims[where].append(axis)
    shape = tuple(draw(st.integers(0, 9)) for _ in range(rank))
    sharding = TensorSharding("mesh", tuple(DimensionSharding(tuple(d)) for d in dims))
    return Placement(TensorType(shape, FloatType("f32")), sharding, mesh)


@settings(max_examples=300, deadline=None)
@given(placements())
def test_shards_put_together_are_the_whole(placement: Placement) -> None:
    whole = np.arange(placement.type.size, dtype=np.float32).reshape(placement.type.static_shape)
    devices = list(placement.mesh.device_ids) or list(range(placement.mesh.total_size))
    shards = [placement.shard(whole, device) for device in devices]
    assert all(shard.shape == placement.local_shape for shard in shards)
    np.testing.assert_array_equal(placement.assemble(shards, devices), whole)
    # Devices that agree along all axes that divide the tensor have the same shard.
    distinct = {placement.starts(device) for device in devices}
    if whole.size:
        assert len(distinct) == math.prod(placement.counts)


def test_major_axes_come_first_and_devices_in_the_order_of_their_ids() -> None:
    mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 2)), (3, 1, 2, 0))
    sharding = TensorSharding("mesh", (DimensionSharding((AxisRef("y"), AxisRef("x"))),))
    placement = Placement(TensorType((4,), FloatType("f32")), sharding, mesh)
    # Device 3 is at x=0, y=0; 1 at x=0, y=1; 2 at x=1, y=0; 0 at x=1, y=1.
    assert {d: placement.starts(d) for d in range(4)} == {3: (0,), 2: (1,), 1: (2,), 0: (3,)}
    assert coordinates(mesh, 2) == {"x": 1, "y": 0}


def test_a_device_outside_of_the_mesh() -> None:
    with pytest.raises(ValueError, match="device 4 is not in a mesh of 4"):
        coordinates(Mesh((MeshAxis("x", 4),)), 4)
