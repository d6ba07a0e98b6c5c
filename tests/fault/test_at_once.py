"""A PE that is steered by nothing but a plan whose faults don't come computes what it does without."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.world.faulting import Faultless
from emu.comm.world.steering import Span
from emu.fault.at_once import AtOnce

PLAN = "kill:pe=0,at=op:100000;drop-signal:from=0,to=1,nth=100000;corrupt:from=1,to=0,nth=100000"


def does_all(me: int = 0) -> list[Any]:
    world = emu.world()
    me, n, right = world.my_pe, world.n_pes, (world.my_pe + 1) % world.n_pes
    tile, words = world.alloc((4, 6), np.float32), world.alloc(8, np.int64)
    found: list[Any] = []
    world.put(tile, np.full((2, 3), me + 1.0, np.float32), right, offsets=(1, 2))
    world.put(tile[0], np.ones(6, np.float32), right, op=emu.AtomicOp.ADD)
    world.put_nbi(words[:2], np.array([me, 7]), right)
    world.quiet()
    world.put_signal(tile[3], np.full(6, 5, np.float32), right, words, 3, index=2)
    world.wait_until(words, emu.Cmp.EQ, 3, index=2)
    found += [world.fetch_add(words, 4, me, index=3), world.swap(words, 9, me, index=4)]
    found += [world.compare_swap(words, 9, 10, me, index=4), world.fetch(words, me, index=4)]
    out = np.zeros(1, np.int64)
    world.fetch_nbi(out, words, me, index=4)
    world.quiet()
    world.signal_op(words, 1, right, op=emu.AtomicOp.ADD, index=5)
    found += [world.wait_for([(words, 5, emu.Cmp.EQ, 1)]), out.tolist()]
    found += [world.test(words, emu.Cmp.EQ, 1, index=5), world.test_some(words, emu.Cmp.EQ, 1)]
    world.set_lock(words, index=7)
    world.clear_lock(words, index=7)
    world.barrier()
    found += [tile.local.tolist(), world.get(words, right)[:6].tolist()]
    found += [world.all_reduce(np.arange(5) + me).tolist(), world.all_gather([me]).tolist()]
    found.append(world.all_to_all(np.arange(n)).tolist())
    half = world.group("half", range(n))
    found.append(half.broadcast(np.array([n]) if me == 1 else None, 1).tolist())
    world.sync()
    tile.free()
    return found


@pytest.mark.parametrize("link", [None, emu.Link(bandwidth=1e9, latency=1e-5)])
def test_all_operations_do_what_they_do(link: emu.Link | None) -> None:
    plain = emu.launch(does_all, 3, link=link)
    assert emu.launch(does_all, 3, link=link, faults=emu.Faults(PLAN)) == plain


def test_it_lets_everything_happen_at_once() -> None:
    steering, done = AtOnce(), []
    steering.send("put", Span(0, 0, 8, True), lambda: done.append(1))
    assert done == [1]
    assert isinstance(steering.meet("barrier", None), contextlib.nullcontext)  # type: ignore[arg-type]
    memory = np.zeros(3)
    assert steering.view(memory, Span(0, 0, 24, True), "x") is memory
    assert isinstance(steering, Faultless)
    assert steering.carried(1, memory) is memory
    assert steering.signals(1) == 1
    assert steering.has_room()
