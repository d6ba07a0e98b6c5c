"""Atomic operations of PEs 0 and 2 on one word of PE 1."""

from __future__ import annotations

from emu import AtomicOp, World
from tests.check.rmaracebench.cases import clean, two

ADD = AtomicOp.ADD


@clean(3)
def atomic_002_adds_through_one_group(world: World, n: int) -> None:
    shared, _ = two(world, n)
    everyone = world.group("everyone", [2, 1, 0])
    if world.my_pe != 1:
        everyone.signal_op(shared, 3, 1, op=ADD)


@clean(3)
def atomic_003_adds_through_two_groups(world: World, n: int) -> None:
    shared, _ = two(world, n)
    everyone = world.group("everyone", [2, 1, 0])
    if world.my_pe == 0:
        world.signal_op(shared, 3, 1, op=ADD)
    if world.my_pe == 2:
        everyone.signal_op(shared, 3, 1, op=ADD)


@clean(3)
def atomic_004_adds_of_two_pes(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe != 1:
        world.signal_op(shared, 3, 1, op=ADD)


@clean(3)
def atomic_005_adds_of_one_pe(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe == 0:
        for value in (3, 4):
            world.signal_op(shared, value, 1, op=ADD)
