"""Steered groups do what others do, and ask first."""

from __future__ import annotations

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.comm.ops import AtomicOp, Cmp
from emu.comm.schedule_options import Schedule


def everything() -> list[object]:
    """Use each operation of a group once; return what it gave."""
    world = emu.world()
    me, n = world.my_pe, world.n_pes
    right = (me + 1) % n
    tile = world.alloc((2, 8), np.float32, name="tile")
    words = world.alloc(4, np.int64, name="words", poison=False)
    found: list[object] = []
    world.put(tile, np.full((1, 8), me, np.float32), right, offsets=(0, 0))
    world.put(tile[1], np.ones(8, np.float32), right, op=AtomicOp.ADD)
    world.fence()
    world.put_nbi(tile, np.full((1, 8), me, np.float32), right, offsets=(0, 0))
    world.quiet()
    world.barrier()
    found.append(tile.local.tolist())
    found.append(float(world.get(tile, right)[1, 3]))
    into = np.zeros((2, 8), np.float32)
    world.get_nbi(tile, right, into)
    old = np.zeros(4, np.int64)
    world.fetch_add_nbi(old, words, 5, me, index=3)
    world.swap_nbi(old, words, 6, me, index=3, out_index=1)
    world.compare_swap_nbi(old, words, 6, 7, me, index=3, out_index=2)
    world.fetch_nbi(old, words, me, index=3, out_index=3)
    world.quiet()
    found += [float(into.sum()), old.tolist()]
    found += [
        world.swap(words, 1, me, index=3),
        world.compare_swap(words, 1, 2, me, index=3),
        world.fetch(words, me, index=3),
    ]
    world.barrier()
    world.put_signal(tile, np.zeros((1, 8), np.float32), right, words, 1, offsets=(0, 0))
    found.append(world.wait_until(words, Cmp.EQ, 1))
    world.signal_op(words, 2, right, index=1)
    found.append(world.wait_until_any(words, Cmp.EQ, 2, indices=[1]))
    world.fence()
    world.put_signal_nbi(
        tile, np.zeros((1, 8), np.float32), right, words, 9, index=2, offsets=(0, 0)
    )
    world.wait_until_all(words, Cmp.EQ, [1, 2, 9], indices=[0, 1, 2])
    found.append(world.test_all(words, Cmp.GE, 1, indices=[0, 1, 2]))
    found.append(world.test_some(words, Cmp.EQ, 2))
    with world.writing(tile) as raw:
        raw[1, 1] = 3
    with world.reading(tile[1]) as raw:
        found.append(float(raw[1]))
    tile[0, 0] = me + 1
    found.append(np.array(tile)[0, 0])
    world.barrier()
    found.append(world.all_gather(np.array([me])).tolist())
    found.append(world.broadcast(np.array([7]) if me == 0 else None, 0).tolist())
    world.sync()
    found.append(tile.on(right)[0, 0])
    world.barrier()
    tile.free()
    return found


@pytest.mark.parametrize("link", [None, Link(bandwidth=1e9, latency=1e-5)], ids=["memory", "link"])
@pytest.mark.parametrize("late", [True, False])
def test_each_operation_gives_what_it_does_without(link: Link | None, *, late: bool) -> None:
    expected = emu.launch(everything, 3, link=link)
    for strategy in ("first", "random", "delay"):
        schedule = Schedule(strategy=strategy, seed=4, late=late)
        assert emu.launch(everything, 3, link=link, schedule=schedule) == expected


def refused() -> list[str]:
    world = emu.world()
    words = world.alloc(2, np.int64, name="words", poison=False)
    found = []
    for call in (
        lambda: world.put(words, np.zeros(3), 0),
        lambda: world.put(words, np.zeros(2, np.int64), 9),
        lambda: world.put(None, np.zeros(2), 0),  # type: ignore[arg-type]
        lambda: world.get(words, "x"),  # type: ignore[arg-type]
        lambda: world.signal_op(words, 1, 0, index=7),
        lambda: world.wait_until(words, "GE", 1),  # type: ignore[arg-type]
        lambda: world.wait_for([]),
        lambda: world.set_lock(words[:0]),
        lambda: world.fetch_add_nbi(np.zeros(1), words, 1, 0),
    ):
        try:
            call()
        except ArgumentError as error:
            found.append(str(error))
        else:
            found.append("nothing")
    return found


def test_wrong_arguments_are_refused_alike() -> None:
    expected = emu.launch(refused, 2)
    assert "nothing" not in expected[0]
    assert emu.launch(refused, 2, schedule=Schedule()) == expected
