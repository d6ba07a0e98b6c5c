"""The store that the PEs of a launch share."""

from __future__ import annotations

from datetime import timedelta

import pytest
from emulated_devices import LOADED_ONCE

import emu

pytest.importorskip("torch.distributed")

LONG = 40_000  # bytes: the second value of that length lies in two chunks of the log


def run_store() -> None:
    from torch.distributed import DistStoreError

    from emu.accelerator.distributed.store import WorldStore

    world = emu.world()
    me, n = world.my_pe, world.n_pes
    store = WorldStore(world, 1)
    store.set(f"key {me}", f"value {me}")
    assert [store.get(f"key {pe}") for pe in range(n)] == [b"value %d" % pe for pe in range(n)]
    for _ in range(20):
        store.add("counter", me + 1)
    store.set(f"long {me}", bytes([me]) * LONG)  # C++ code passes lists of numbers, too
    store.set(f"list {me}", [1, 2, me])
    store.wait([f"{kind} {pe}" for kind in ("long", "list") for pe in range(n)])
    world.barrier()
    assert store.add("counter", 0) == 20 * sum(range(n + 1))
    for pe in range(n):
        assert store.get(f"long {pe}") == bytes([pe]) * LONG
        assert store.get(f"list {pe}") == bytes([1, 2, pe])
    # Of those who compare at once, one wins, and the others are given its value.
    winner = store.compare_set("lock", "", str(me))
    assert store.get("lock") == winner
    assert store.compare_set("lock", "nobody's", "mine") == winner
    assert store.compare_set("absent", "expected", "mine") == b"expected"
    world.barrier()
    assert store.delete_key(f"key {me}")
    assert not store.delete_key(f"key {me}")
    world.barrier()
    assert not store.check(["key 0"])
    assert store.check(["lock", "counter"])
    assert store.num_keys() == 2 * n + 2
    store.set_timeout(timedelta(seconds=0.05))
    with pytest.raises(DistStoreError, match=r"wait timeout after .*: nobody set key 0"):
        store.wait(["lock", "key 0"])
    other = WorldStore(world, 2)
    assert other.num_keys() == 0
    assert other.timeout == timedelta(minutes=5)


def test_every_pe_sees_what_any_of_them_stores() -> None:
    emu.launch(run_store, 3, preload=LOADED_ONCE)
