"""Axes of groups of devices."""

from __future__ import annotations

import random

import pytest

from emu.sdy.costs.groups import axes_between, axes_of
from emu.sdy.dialect.attributes import AxisRef, Mesh, MeshAxis
from emu.sdy.dialect.axes import replica_groups, sub_axis

MESH = Mesh((MeshAxis("x", 4), MeshAxis("y", 6), MeshAxis("z", 2)))
PARTS = [
    AxisRef("x"), AxisRef("y"), AxisRef("z"), sub_axis("x", 1, 2), sub_axis("x", 2, 2),
    sub_axis("y", 1, 3), sub_axis("y", 2, 3), sub_axis("y", 3, 2), sub_axis("y", 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_groups_along_axes_are_recognized(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.sample("xyz", rng.randint(1, 3))
    axes = tuple(rng.choice([p for p in PARTS if p.name == n]) for n in sorted(names))
    devices = list(range(48))
    rng.shuffle(devices)
    mesh = Mesh(MESH.axes, tuple(devices)) if seed % 2 else MESH
    groups = replica_groups(axes, mesh)
    rng.shuffle(groups)
    assert axes_of(groups, mesh) == axes


@pytest.mark.parametrize("groups", [[[0, 3], [1, 2]], [[0, 1, 2]], [[0, 1], [2, 4]], [[0, 99]], []])
def test_groups_along_no_axes_have_none(groups: list[list[int]]) -> None:
    assert axes_of(groups, MESH) == ()


def test_pairs_differ_along_axes() -> None:
    assert axes_between([(0, 1), (1, 0)], MESH) == (AxisRef("z"),)
    assert axes_between([(0, 12), (12, 26)], MESH) == (AxisRef("x"), AxisRef("y"))
    assert axes_between([(0, 99)], MESH) == ()
