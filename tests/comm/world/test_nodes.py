"""Nodes: which PEs make up a machine of the emulated system."""

from __future__ import annotations

import os

import pytest

import emu
from emu.comm.errors import ArgumentError
from emu.comm.world.nodes import node_of, ranks_per_node, same_place


@pytest.mark.parametrize(
    ("text", "n_pes", "expected"),
    [(None, 4, 4), ("2", 4, 2), ("1", 4, 1), ("4", 4, 4), ("3", 4, 4), ("8", 4, 4)],
)
def test_a_divisor_divides_the_pes(
    text: str | None, n_pes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EMU_RANKS_PER_NODE", raising=False)
    if text is not None:
        monkeypatch.setenv("EMU_RANKS_PER_NODE", text)
    assert ranks_per_node(n_pes) == expected


def test_what_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_RANKS_PER_NODE", "two")
    with pytest.raises(ArgumentError, match="EMU_RANKS_PER_NODE must be a whole number"):
        ranks_per_node(4)


def groups() -> tuple[tuple[int, ...], ...]:
    world = emu.world()
    assert node_of(world) is world
    os.environ["EMU_RANKS_PER_NODE"] = "2"
    node, place = node_of(world), same_place(world)
    node.barrier()
    place.barrier()
    return tuple(node.members), tuple(place.members)


def test_pes_of_a_node_and_of_a_place_are_groups() -> None:
    assert emu.launch(groups, 4) == [
        ((0, 1), (0, 2)),
        ((0, 1), (1, 3)),
        ((2, 3), (0, 2)),
        ((2, 3), (1, 3)),
    ]
