"""Kernels that communicate, for programs whose PEs may be on several hosts."""

from __future__ import annotations

import numpy as np
from host_programs import digest

import emu
import emu.triton.language as tl
from emu import shmem, triton


@triton.jit
def moves(inbox, out, back, flag, n: tl.constexpr):
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right = (me + 1) % n_pes
    shmem.put_signal(inbox, out, n * 4, flag, 7, right)
    got = shmem.wait_until(flag, "ge", 5)
    for pe in range(n_pes):
        shmem.put(inbox + (1 + me) * n, out + n, n * 4, pe)
    shmem.quiet()
    shmem.get(back, inbox, n * 4, right)
    shmem.signal(flag + 1, got, right, "add")
    shmem.fence()
    shmem.signal(flag + 1, 1, right, "add")
    shmem.wait_until(flag + 1, "eq", 8)
    shmem.barrier()


@triton.jit
def collects(mine, out, nbytes, team):
    shmem.broadcast(out, mine, nbytes, 1, team)
    out += 100
    shmem.all_gather(out, mine, nbytes, team)
    out += 400
    shmem.all_to_all(out, mine, nbytes, team)
    shmem.barrier()


@triton.jit
def neighbours(inbox, seen, total, team, n: tl.constexpr):
    """Elements of PEs of this host: stored, loaded, added, summed."""
    me, size = shmem.my_pe(team), shmem.n_pes(team)
    right = shmem.world_pe((me + 1) % size, team)
    i = tl.arange(0, n)
    shmem.store(inbox + i, me * 100.0 + i, right)
    shmem.barrier(team)
    tl.store(seen + i, shmem.load(inbox + i, right))
    shmem.atomic_add(total, 1.0, right)
    shmem.barrier(team)
    shmem.reduce(inbox, inbox, n, "sum", team)


@triton.jit
def loads(inbox, seen, pe):
    tl.store(seen, tl.load(shmem.remote(inbox, pe)))


def kernels():
    """Puts, gets, signals, waits, barriers and collectives of kernels, among all PEs and in a group of some."""
    world = emu.world()
    n, n_pes, me = 33, world.n_pes, world.my_pe
    inbox, flag = world.alloc((1 + n_pes, n), np.float32), world.alloc(2, np.uint64, poison=False)
    out = np.arange(2 * n, dtype=np.float32) + 100 * me
    back = np.full(n, 9, np.float32)
    moves[(1,)](inbox.local, out, back, flag.local, n)
    found = [digest(inbox.local, back, flag.local)]
    group = world.group("all but the first", range(1, n_pes)) if me else None
    for team in (world, group):
        mine, gathered = world.alloc(400, np.float32), world.alloc(900, np.float32)
        mine.local[:] = np.arange(400) + 1000 * me
        gathered.local[:] = 0
        world.barrier()
        if team is not None:
            collects[(1,)](mine.local, gathered.local, 4 * 100, shmem.team(team))
        else:
            world.barrier()
        found.append(digest(gathered.local))
        world.barrier()
    return found


def kernels_of_a_host():
    """Elements of PEs of one host; a pointer that reaches beyond it is refused, and the line named."""
    world = emu.world()
    n, found = 16, []
    inbox, total = world.alloc(n, np.float32), world.alloc(1, np.float32)
    seen = np.zeros(n, np.float32)
    half = world.n_pes // 2
    host = world.group(
        f"half {world.my_pe // half}", [world.my_pe // half * half + i for i in range(half)]
    )
    neighbours[(1,)](inbox.local, seen, total.local, shmem.team(host), n)
    found.append(digest(seen, total.local, inbox.local))
    world.barrier()
    try:
        loads[(1,)](inbox.local, seen, (world.my_pe + half) % world.n_pes)
        found.append("no error")
    except Exception as error:  # noqa: BLE001 - its text is what is looked at
        found.append(f"{type(error).__name__}: {error}")
    world.barrier()
    return found
