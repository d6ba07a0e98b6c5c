"""Two operations meet on the same memory with nothing between them: which pairs conflict.

Cases 001 to 015 are about memory of the calling PE that a non-blocking operation still uses, the others about memory
of PE 1, which PE 0 reaches and PE 1 or PE 2 uses at the same time.
"""

from __future__ import annotations

from emu import World
from tests.check.rmaracebench.cases import clean, flag, racy, two

# --- memory that a non-blocking operation still uses ---------------------------------------------


@clean(2)
def conflict_001_the_source_of_put_nbi_is_loaded(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put_nbi(shared, mine, 1)
        assert mine.local[0] == 5


@racy(2)
def conflict_002_the_source_of_put_nbi_is_overwritten(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put_nbi(shared, mine, 1)  # A
        mine.local[0] = 77  # B


@clean(2)
def conflict_003_two_put_nbi_share_a_source(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        for pe in (1, 0):
            world.put_nbi(shared, mine, pe)


@racy(2)
def conflict_004_the_result_of_get_nbi_is_loaded(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        mine.local[0].item()  # B


@racy(2)
def conflict_005_the_result_of_get_nbi_is_overwritten(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        mine.local[n - 1] += 1  # B


@racy(2)
def conflict_006_the_result_of_get_nbi_is_put_back(world: World, n: int) -> None:
    shared, mine = two(world, n)
    elsewhere = world.alloc(n, shared.dtype)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        world.put_nbi(elsewhere, mine, 1)  # B


@racy(2)
def conflict_007_two_get_nbi_share_a_result(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get_nbi(shared, 1, mine)  # A
        world.get_nbi(shared, 1, mine)  # B


@racy(2)
def conflict_008_the_source_of_put_signal_nbi_is_overwritten(world: World, n: int) -> None:
    (shared, mine), done = two(world, n), flag(world)
    if world.my_pe == 0:
        world.put_signal_nbi(shared, mine, 1, done, 1)  # A
        mine.local[0] = 77  # B


@clean(2)
def conflict_009_the_source_of_put_signal_nbi_is_loaded(world: World, n: int) -> None:
    (shared, mine), done = two(world, n), flag(world)
    if world.my_pe == 0:
        world.put_signal_nbi(shared, mine, 1, done, 1)
        assert mine.local.sum() == 5 * n


@racy(2)
def conflict_010_the_result_of_fetch_nbi_is_overwritten(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_nbi(mine, shared, 1)  # A
        mine.local[0] = 77  # B


@racy(2)
def conflict_011_the_result_of_fetch_nbi_is_loaded(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_nbi(mine, shared, 1)  # A
        int(mine.local[0])  # B


@racy(2)
def conflict_012_the_result_of_fetch_add_nbi_is_overwritten(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_add_nbi(mine, shared, 1, 1, out_index=n - 1)  # A
        mine.local[...] = 77  # B


@racy(2)
def conflict_013_the_result_of_fetch_add_nbi_is_loaded(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_add_nbi(mine, shared, 1, 1, out_index=n - 1)  # A
        mine.local.max()  # B


@racy(2)
def conflict_014_the_result_of_compare_swap_nbi_is_loaded(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.compare_swap_nbi(mine, shared, 0, 9, 1)  # A
        mine.local.tolist()  # B


@racy(2)
def conflict_015_the_result_of_compare_swap_nbi_is_overwritten(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.compare_swap_nbi(mine, shared, 8, 9, 1)  # A
        mine[0] = 77  # B


# --- memory of PE 1 that PE 0 reaches ------------------------------------------------------------


@clean(2)
def conflict_016_get_and_load(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
    else:
        assert not shared.local.any()


@clean(3)
def conflict_017_get_and_get(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 2:
        mine.local[0] = 2
    if world.my_pe != 1:
        world.get(shared, 1, out=mine)


@racy(2)
def conflict_018_get_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    else:
        shared.local[0] = 77  # B


@racy(3)
def conflict_019_get_and_put(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    if world.my_pe == 2:
        world.put(shared, mine, 1)  # B


@clean(3)
def conflict_020_get_and_fetch(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)
    if world.my_pe == 2:
        mine.local[0] = world.fetch(shared, 1)


@racy(3)
def conflict_021_get_and_atomic_set(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.get(shared, 1, out=mine)  # A
    if world.my_pe == 2:
        world.signal_op(shared, 8, 1)  # B


@racy(2)
def conflict_022_put_and_load(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)  # A
    else:
        int(shared.local[n - 1])  # B


@racy(2)
def conflict_023_put_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)  # A
    else:
        shared.local[n - 1] = 77  # B


@racy(3)
def conflict_024_put_and_put(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)  # A
    if world.my_pe == 2:
        world.put(shared, mine, 1)  # B


@racy(3)
def conflict_025_put_and_fetch(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)  # A
    if world.my_pe == 2:
        world.fetch(shared, 1, index=n - 1)  # B


@racy(3)
def conflict_026_put_and_atomic_set(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared, mine, 1)  # A
    if world.my_pe == 2:
        world.signal_op(shared, 8, 1, index=n - 1)  # B


@racy(2)
def conflict_027_atomic_set_and_load(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe == 0:
        world.signal_op(shared, 8, 1)  # A
    else:
        int(shared.local[0])  # B


@racy(2)
def conflict_028_atomic_set_and_store(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe == 0:
        world.signal_op(shared, 8, 1)  # A
    else:
        shared.local[0] = 77  # B


@clean(3)
def conflict_029_atomic_set_and_atomic_set(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe != 1:
        world.signal_op(shared, world.my_pe, 1)


@clean(3)
def conflict_030_atomic_set_and_fetch(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.signal_op(shared, 8, 1)
    if world.my_pe == 2:
        mine.local[0] = world.fetch(shared, 1)


@clean(3)
def conflict_031_fetch_and_fetch(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe != 1:
        mine.local[0] = world.fetch(shared, 1)


@clean(2)
def conflict_032_fetch_and_load(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        mine.local[0] = world.fetch(shared, 1)
    else:
        assert shared.local[0] == 0


@racy(2)
def conflict_033_fetch_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        mine.local[0] = world.fetch(shared, 1)  # A
    else:
        shared.local[0] = 77  # B


@racy(2)
def conflict_034_put_signal_and_store(world: World, n: int) -> None:
    (shared, mine), done = two(world, n), flag(world)
    if world.my_pe == 0:
        world.put_signal(shared, mine, 1, done, 1)  # A
    else:
        shared.local[0] = 77  # B


@racy(3)
def conflict_035_put_signal_and_put_signal(world: World, n: int) -> None:
    (shared, mine), done, also_done = two(world, n), flag(world), flag(world)
    if world.my_pe == 0:
        world.put_signal(shared, mine, 1, done, 1)  # A
    if world.my_pe == 2:
        world.put_signal(shared, mine, 1, also_done, 1)  # B


@racy(2)
def conflict_036_get_of_one_element_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        mine.local[0] = world.get(shared[n - 1], 1)  # A
    else:
        shared.local[n - 1] = 77  # B


@racy(3)
def conflict_037_get_of_one_element_and_put(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        mine.local[0] = world.get(shared[n - 1], 1)  # A
    if world.my_pe == 2:
        world.put(shared, mine, 1)  # B


@racy(2)
def conflict_038_put_of_one_element_and_load(world: World, n: int) -> None:
    shared, _ = two(world, n)
    if world.my_pe == 0:
        world.put(shared[n - 1], 77, 1)  # A
    else:
        shared.local.sum()  # B


@racy(3)
def conflict_039_put_of_one_element_and_get(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.put(shared[n - 1], 77, 1)  # A
    if world.my_pe == 2:
        world.get(shared, 1, out=mine)  # B


@racy(2)
def conflict_040_strided_put_and_store(world: World, n: int) -> None:
    shared, mine = two(world, 2 * n)
    if world.my_pe == 0:
        world.put(shared[::2], mine[:n], 1)  # A
    else:
        shared.local[2 * n - 2] = 77  # B


@racy(3)
def conflict_041_strided_put_and_put(world: World, n: int) -> None:
    shared, mine = two(world, 2 * n)
    if world.my_pe == 0:
        world.put(shared[1::2], mine[::2], 1)  # A
    if world.my_pe == 2:
        world.put(shared, mine, 1)  # B


@racy(2)
def conflict_042_strided_get_and_store(world: World, n: int) -> None:
    shared, mine = two(world, 2 * n)
    if world.my_pe == 0:
        world.get(shared[1::2], 1, out=mine[:n])  # A
    else:
        shared.local[2 * n - 1] = 77  # B


@racy(3)
def conflict_043_strided_get_and_put(world: World, n: int) -> None:
    shared, mine = two(world, 2 * n)
    if world.my_pe == 0:
        world.get(shared[::2], 1, out=mine[n:])  # A
    if world.my_pe == 2:
        world.put(shared, mine, 1)  # B


@clean(3)
def conflict_044_fetch_nbi_and_fetch_nbi(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 2:
        mine.local[...] = 2
    if world.my_pe != 1:
        world.fetch_nbi(mine, shared, 1)


@clean(2)
def conflict_045_fetch_nbi_and_load(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_nbi(mine, shared, 1)
    else:
        assert shared.local[0] == 0


@clean(3)
def conflict_046_fetch_add_and_fetch_add(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe != 1:
        mine.local[0] = world.fetch_add(shared, 1, 1)


@racy(2)
def conflict_047_fetch_nbi_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.fetch_nbi(mine, shared, 1)  # A
    else:
        shared.local[0] = 77  # B


@racy(2)
def conflict_048_compare_swap_nbi_and_store(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.compare_swap_nbi(mine, shared, 0, 9, 1)  # A
    else:
        shared.local[0] = 77  # B


@clean(3)
def conflict_049_compare_swap_nbi_and_fetch_nbi(world: World, n: int) -> None:
    shared, mine = two(world, n)
    if world.my_pe == 0:
        world.compare_swap_nbi(mine, shared, 0, 9, 1)
    if world.my_pe == 2:
        world.fetch_nbi(mine, shared, 1)
