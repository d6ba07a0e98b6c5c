"""Accesses that hide behind calls, second names and tables of functions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from emu import SymmetricArray, World
from tests.check.rmaracebench.cases import clean, racy, two


def through(levels: int, call: Callable[[], Any]) -> Any:
    """Make a call from far down the stack."""
    return through(levels - 1, call) if levels else call()


def fill(names: dict[str, SymmetricArray], shared: SymmetricArray, mine: SymmetricArray) -> None:
    """Give two arrays second names in a table of the caller."""
    names["target"], names["buffer"] = shared, mine


def same(array: SymmetricArray) -> SymmetricArray:
    """Give an array back."""
    return array


# --- memory of the calling PE --------------------------------------------------------------------


@clean(2)
def misc_001_put_nbi_far_down(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        through(9, lambda: world.put_nbi(shared, mine, 1))
        assert mine.local[0] == 5


@racy(2)
def misc_002_get_nbi_far_down(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        through(9, lambda: world.get_nbi(shared, 1, mine))  # A
        int(mine.local[0])  # B


@clean(2)
def misc_003_the_source_of_put_nbi_is_loaded_by_a_name_in_a_table(world: World, n: int) -> None:
    shared, mine = two(world, n)
    names: dict[str, SymmetricArray] = {}
    fill(names, shared, mine)
    if world.my_pe == 0:
        world.put_nbi(shared, mine, 1)
        assert names["buffer"].local[0] == 5


@racy(2)
def misc_004_the_result_of_get_nbi_is_loaded_by_a_name_in_a_table(world: World, n: int) -> None:
    shared, mine = two(world, n)
    names: dict[str, SymmetricArray] = {}
    fill(names, shared, mine)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        int(names["buffer"].local[0])  # B


@clean(2)
def misc_005_the_source_of_put_nbi_is_loaded_by_a_returned_name(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put_nbi(shared, mine, 1)
        assert same(mine).local[0] == 5


@racy(2)
def misc_006_the_result_of_get_nbi_is_loaded_by_a_returned_name(world: World, n: int) -> None:
    shared, mine = two(world, n)
    again = same(mine)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        int(again.local[0])  # B


@clean(2)
def misc_007_the_source_of_put_nbi_is_loaded_through_a_view(world: World, n: int) -> None:
    shared, mine = two(world, n)
    view = mine.local[:]
    if world.my_pe == 0:
        world.put_nbi(shared, mine, 1)
        assert view[0] == 5


@racy(2)
def misc_008_the_result_of_get_nbi_is_loaded_through_a_view(world: World, n: int) -> None:
    shared, mine = two(world, n)
    view = mine.local[:]
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        int(view[0])  # B


# --- memory of PE 1 ------------------------------------------------------------------------------


@clean(2)
def misc_009_get_far_down_and_load(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        through(9, lambda: world.get(shared, 1, out=mine))
    else:
        assert shared.local[0] == 0


@racy(2)
def misc_010_get_far_down_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        through(9, lambda: world.get(shared, 1, out=mine))  # A
    else:
        shared.local[0] = 77  # B


@clean(2)
def misc_011_get_and_load_from_a_table_of_functions(world: World, n: int) -> None:
    shared, mine = two(world, n)
    parts: list[Callable[[], Any]] = [
        lambda: world.get(shared, 1, out=mine),
        lambda: shared.local[0].item(),
    ]
    parts[world.my_pe]()


@racy(2)
def misc_012_get_and_store_from_a_table_of_functions(world: World, n: int) -> None:
    shared, mine = two(world, n)

    def fetch() -> None:
        world.get(shared, 1, out=mine)  # A

    def store() -> None:
        shared.local[0] = 77  # B

    [fetch, store][world.my_pe]()


@clean(2)
def misc_013_get_and_load_by_a_name_in_a_table(world: World, n: int) -> None:
    shared, mine = two(world, n)
    names: dict[str, SymmetricArray] = {}
    fill(names, shared, mine)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
    else:
        assert names["target"].local[0] == 0


@racy(2)
def misc_014_get_and_store_by_a_name_in_a_table(world: World, n: int) -> None:
    shared, mine = two(world, n)
    names: dict[str, SymmetricArray] = {}
    fill(names, shared, mine)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    else:
        names["target"].local[0] = 77  # B


@clean(2)
def misc_015_get_and_load_by_a_returned_name(world: World, n: int) -> None:
    shared, mine = two(world, n)
    again = same(shared)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
    else:
        assert again.local[0] == 0


@racy(2)
def misc_016_get_and_store_by_a_returned_name(world: World, n: int) -> None:
    shared, mine = two(world, n)
    again = same(shared)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    else:
        again[0] = 77  # B


@clean(2)
def misc_017_get_and_load_through_a_copied_handle(world: World, n: int) -> None:
    shared, mine = two(world, n)
    again = copy.copy(shared)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
    else:
        assert again.local[0] == 0


@racy(2)
def misc_018_get_and_store_through_a_copied_handle(world: World, n: int) -> None:
    shared, mine = two(world, n)
    again = copy.copy(shared)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    else:
        again.local[0] = 77  # B
