"""Elements of other PEs over an emulated link: what travels, and that it takes its time."""

from __future__ import annotations

import time

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import shmem, triton

LINK = emu.Link(bandwidth=1e9, latency=0.02)


@triton.jit
def uses_elements(inbox, out, peer):
    i = tl.arange(0, 16)
    seen = shmem.load(inbox + i, peer, mask=i < 5, other=0)
    tl.store(out + i, seen)
    shmem.store(inbox + i, seen + 1, peer)
    shmem.store(inbox, seen.sum(), peer)
    shmem.atomic_add(inbox + i, 1, peer, mask=i >= 14)
    shmem.atomic_cas(inbox, 0, 1, peer)


def travels(backend: str) -> list[tuple[int, int, int]]:
    """Return what each access has sent to the other PE, and fetched from it."""
    world = emu.world()
    found: list[tuple[int, int, int]] = []
    setattr(world, "carry_elements", lambda *given: found.append(given))  # noqa: B010
    inbox, out = world.alloc(16, np.int32, poison=False), np.zeros(16, np.int32)
    world.barrier()
    uses_elements[(1,)](inbox.local, out, 1 - world.my_pe, backend=backend)
    return found


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_lanes_that_count_travel(backend: str) -> None:
    for me, found in enumerate(emu.launch(travels, 2, args=(backend,), link=LINK)):
        peer = 1 - me
        assert found == [
            *((peer, 0, 20), (peer, 64, 0), (peer, 4, 0)),
            *((peer, 8, 8), (peer, 4, 4)),
        ]


@triton.jit
def loads(inbox, out, peer):
    tl.store(out, shmem.load(inbox, peer))


@triton.jit
def stores(inbox, out, peer):
    shmem.store(inbox, tl.load(out), peer)


@triton.jit
def adds(inbox, out, peer):
    shmem.atomic_add(inbox, tl.load(out), peer)


def takes(to_itself: bool) -> list[float]:
    world = emu.world()
    inbox, out = world.alloc(1, np.int32, poison=False), np.zeros(1, np.int32)
    peer = world.my_pe if to_itself else 1 - world.my_pe
    found = []
    for kernel in (loads, stores, adds):
        kernel[(1,)](inbox.local, out, peer)  # compiles
        world.barrier()
        begun = time.monotonic()
        kernel[(1,)](inbox.local, out, peer)
        found.append(time.monotonic() - begun)
    return found


def test_no_access_takes_less_than_its_latencies() -> None:
    for load, store, add in emu.launch(takes, 2, args=(False,), link=LINK):
        assert load >= 2 * LINK.latency
        assert store >= LINK.latency
        assert add >= 2 * LINK.latency


def test_memory_of_the_pe_itself_is_not_behind_a_link() -> None:
    slow = emu.Link(
        bandwidth=1e9, latency=100.0
    )  # a launch that waits for it would not end in time
    assert len(emu.launch(takes, 1, args=(True,), link=slow)) == 1
