"""Programs over hosts that end in a deadlock, and others that only look as if; what runs them under mpiexec.

``python deadlock_programs.py N NAME`` starts N PEs on each host.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from host_programs import say, short_programs

import emu
from emu import Cmp
from emu.comm.process import joint_looks
from emu.comm.process.hosts import launch_over_hosts
from emu.comm.process.launch_options import LaunchOptions
from emu.mc2 import Hccl


def made(world):
    """Return a flag and a lock that all PEs have."""
    flag = world.alloc(2, np.int64, name="flag", poison=False)
    lock = world.alloc(1, np.int64, name="lock", poison=False)
    world.barrier()
    return flag, lock


# --- deadlocks ----------------------------------------------------------------------------


def crossed_signals(world):
    """The first and the last PE each wait before they signal; all others have ended."""
    flag, _ = made(world)
    last = world.n_pes - 1
    if world.my_pe in (0, last):
        world.wait_until(flag, Cmp.EQ, 5)
        world.signal_op(flag, 5, last - world.my_pe)


def barrier_and_signal(world):
    """One PE waits for a signal that others send behind a barrier."""
    flag, _ = made(world)
    if world.my_pe == 1:
        world.wait_until(flag, Cmp.EQ, 5)
    world.barrier()
    world.signal_op(flag, 5, 1)


def lock_and_signal(world):
    """The first PE holds a lock, and waits for a signal of the last one, which wants the lock; the others compute."""
    _, lock = made(world)
    last = world.n_pes - 1
    if 0 < world.my_pe < last:
        while True:
            sum(range(100_000))
    pair = world.group("pair", [0, last])
    both = pair.alloc(1, np.int64, name="both", poison=False)
    if world.my_pe == 0:
        world.set_lock(lock)
        pair.signal_op(both, 1, 1)
        pair.wait_until(both, Cmp.EQ, 7)
    else:
        pair.wait_until(both, Cmp.EQ, 1)
        world.set_lock(lock)
        pair.signal_op(both, 7, 0)


def crossed_groups(world):
    """Two PEs on different hosts call the barriers of two groups in different orders."""
    made(world)
    last = world.n_pes - 1
    if world.my_pe in (0, last):
        one, two = world.group("one", [0, last]), world.group("two", [last, 0])
        for group in (one, two) if world.my_pe == 0 else (two, one):
            group.barrier()


def member_ended(world):
    """All PEs of the first host have ended, and a collective lacks them."""
    made(world)
    if world.my_pe >= world.n_pes // 2:
        world.all_reduce(np.ones(5))


def others_send(world):
    """Two PEs of a group wait for each other, while all others send messages to and fro for ever."""
    made(world)
    last = world.n_pes - 1
    if world.my_pe in (0, last):
        pair = world.group("pair", [0, last])
        flag = pair.alloc(1, np.int64, name="flag of two", poison=False)
        pair.barrier()
        pair.wait_until(flag, Cmp.EQ, 5)
    send_round(world, 1 << 40)


def send_round(world, turns):
    """All PEs but the first and the last pass a number on so often, on other hosts, too."""
    between = world.group("between", list(range(1, world.n_pes - 1)))
    flag = between.alloc(1, np.int64, name="to and fro", poison=False)
    n, me = between.n_pes, between.my_pe
    for turn in range(1, turns + 1):
        if me or turn > 1:
            between.wait_until(flag, Cmp.GE, turn - (me == 0))
        between.signal_op(flag, turn, (me + 1) % n)


# --- programs that are right -------------------------------------------------------------


def slow(world):
    """Everybody waits for a long time, in each kind of wait, for somebody on another host who is slow."""
    flag, lock = made(world)
    n, me = world.n_pes, world.my_pe
    data = world.alloc(200_000, np.float32, name="data")
    for turn in range(4):
        slowest = (turn * (n // 2 + 1)) % n
        if me == slowest:
            time.sleep(1.2)
            for pe in range(n):
                world.put_signal_nbi(data, np.full(200_000, turn, np.float32), pe, flag, turn + 1)
            world.quiet()
        world.wait_until(flag, Cmp.GE, turn + 1)
        assert np.all(data.local == turn)
        world.set_lock(lock)
        time.sleep(1.0 / n)
        world.clear_lock(lock)
        if me == n - 1 - slowest:
            time.sleep(0.6)
        world.all_reduce(np.ones(9))
        world.barrier()
    return 1


def passed_round(world):
    """A token goes round while all others sleep in waits; nobody computes, so that only messages move anything."""
    flag, _ = made(world)
    n, me = world.n_pes, world.my_pe
    for lap in range(1, 401):
        if me or lap > 1:
            world.wait_until(flag, Cmp.GE, lap - (me == 0))
        world.signal_op(flag, lap, (me + n // 2 + 1) % n if n % 2 else (me + 1) % n)
    world.barrier()
    return 1


def turns(world):
    """Turns of Hccl that one rank after the other releases late, while all others wait; then many that follow at once."""
    n, me = world.n_pes, world.my_pe
    mine, out = np.full(3000, me, np.float32), np.zeros((n, 3000), np.float32)
    with Hccl() as hccl:
        handle = hccl.AllGather(mine, out, 250, strideCount=3000, repeat=12)
        for turn in range(12):
            if turn % n == me:
                time.sleep(1.3 if turn < n else 0.2)
            hccl.Commit(handle)
            assert hccl.Wait(handle) == 0
    for _ in range(40):
        with Hccl() as hccl:
            handle = hccl.AllReduce(mine, out, 250, repeat=12)
            for _ in range(12):
                hccl.Commit(handle)
                assert hccl.Wait(handle) == 0
    assert (out.reshape(-1)[:3000] == n * (n - 1) / 2).all()
    world.barrier()
    return 1


def slow_among_others(world):
    """Two PEs wait long for each other's data, in turn, and others send messages all the time."""
    made(world)
    last = world.n_pes - 1
    if 0 < world.my_pe < last:
        send_round(world, 1500)
    else:
        pair = world.group("pair", [0, last])
        data = pair.alloc(100_000, np.float32, name="data of two")
        flag = pair.alloc(1, np.int64, name="flag of two", poison=False)
        for turn in range(12):
            if turn % 2 == pair.my_pe:
                time.sleep(0.25)
                source = np.full(100_000, turn, np.float32)
                pair.put_signal_nbi(data, source, 1 - pair.my_pe, flag, turn + 1)
            else:
                pair.wait_until(flag, Cmp.GE, turn + 1)
                assert np.all(data.local == turn)
        pair.barrier()
    world.barrier()
    return 1


def short(world):
    """Random programs."""
    return len(short_programs(world, 9_000_000, 9_000_060))


RIGHT = ("passed_round", "short", "slow", "slow_among_others", "turns")
"""Programs during which launchers look all the time."""


def program(name):
    return globals()[name](emu.world())


def main():
    n_here, names = int(sys.argv[1]), sys.argv[2:]
    for name in names:
        joint_looks._SAY_S = 0.0 if name in RIGHT else 1.0
        try:
            options = LaunchOptions(timeout=240.0)
            found = launch_over_hosts(program, n_here, args=(name,), options=options)
            say(f"RESULTS-{name}", found)
        except ExceptionGroup as group:
            say(f"REPORT-{name}", [str(group), *map(str, group.exceptions)])


if __name__ == "__main__":
    main()
