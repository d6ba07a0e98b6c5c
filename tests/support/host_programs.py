"""Programs whose results must have the same bits on one host and over several, and what runs them over several.

Each takes the World and returns an object for JSON. ``python host_programs.py N NAME ...`` runs them under mpiexec.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time

import numpy as np

import emu
from emu import AtomicOp, Cmp
from emu.comm.errors import CommError
from emu.comm.layout import B_COMPILING
from emu.kernels.core.dtypes import DTYPES
from emu.mc2 import Hccl

ADD = AtomicOp.ADD


def digest(*arrays):
    found = hashlib.blake2b(digest_size=12)
    for array in arrays:
        found.update(f"{array.shape} {array.dtype}".encode())
        found.update(np.ascontiguousarray(array).view(np.uint8).tobytes())
    return found.hexdigest()


def values(shape, dtype, seed):
    draw = np.random.default_rng(seed)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return draw.integers(0, 100, shape).astype(dtype)
    return draw.standard_normal(shape).astype(np.float32).astype(dtype)


def puts_and_gets(world):
    """Dense and strided tiles of every dtype, stored to and fetched from every PE."""
    found, n, me = [], world.n_pes, world.my_pe
    for number, dtype in enumerate(DTYPES):
        a = world.alloc((n, 6, 10), dtype, name=f"a{number}")
        for pe in range(n):
            tile = values((6, 10), dtype, 100 * me + pe)
            world.put(a[me], tile, pe)
            world.put(a[me, ::2, 1:8], tile.T[:7, :3].T, pe)  # strided on both sides
            world.put(a, tile[:1, :4].reshape(1, 1, 4), pe, offsets=(me, 5, 6))
        world.barrier()
        found.append(digest(a.local))
        for pe in range(n):
            found.append(digest(world.get(a, pe), world.get(a[:, 1:5:3], pe)))
            found.append(digest(world.get(a, pe, offsets=(1, 2, 3), shape=(2, 2, 4))))
        one = world.alloc((), dtype)
        world.put(one, values((), dtype, me + number), (me + 2) % n)
        world.barrier()
        found.append(digest(one.local, world.get(one, (me + n // 2) % n)))
        world.barrier()
        a.free()
        one.free()
    return found


def adds(world):
    """ADD of every dtype into every PE, one PE after the other: 16-bit sums round at each step."""
    found, n, me = [], world.n_pes, world.my_pe
    for number, dtype in enumerate(DTYPES):
        a = world.alloc((40, 33), dtype)
        for turn in range(n):
            if turn == me:
                for pe in range(n):
                    world.put(a, values((40, 33), dtype, number + 7 * me + pe), pe, op=ADD)
                    world.put(a[::3, 5:9], values((14, 4), dtype, number + me), pe, op=ADD)
            world.barrier()
        found.append(digest(a.local))
        world.barrier()
        a.free()
    return found


def large_transfers(world):
    """Transfers of several pieces: from private memory and from the heap, into both; with holes, and at odd offsets."""
    n, me = world.n_pes, world.my_pe
    a, b = (world.alloc(3_000_001, np.float32, name=name) for name in "ab")
    source = values(3_000_001, np.dtype(np.float32), me)
    world.put(a, source, (me + 1) % n)
    world.barrier()
    found = [digest(a.local)]
    world.put(b, a, (me + 2) % n)
    world.barrier()
    found.append(digest(b.local))
    world.put(b, a, (me + 1) % n, op=ADD)
    world.barrier()
    found.append(digest(b.local))
    world.put(b[::2], source[:1_500_001], (me + 3) % n)
    world.barrier()
    found.append(digest(b.local, world.get(a, (me + 2) % n), world.get(b[1::3], (me + 3) % n)))
    world.get(a, (me + 3) % n, out=source)
    world.barrier()
    world.get(b, (me + 2) % n, out=a)
    world.barrier()
    found.append(digest(source, a.local))
    world.barrier()
    a.free()
    b.free()
    return found


def overlapping_transfers(world):
    """Stores and sums of a row of sizes at overlapping places, one behind the other, some of them with a signal."""
    n, me = world.n_pes, world.my_pe
    count = 700_000
    whole = [world.alloc(count, np.float32, name=f"of {pe}") for pe in range(n)]
    counts = world.alloc(n, np.int64, name="counts")
    draw = np.random.default_rng(me)
    source = values(count, np.dtype(np.float32), me)
    mine = world.alloc(count, np.float32, name="mine")
    mine.local[...] = source
    sent = [0] * n
    world.barrier()
    for _ in range(60):
        size = int(min(count, 2 ** draw.uniform(6, 19.5)))
        first, place = (int(draw.integers(0, count - size + 1)) for _ in range(2))
        to, how = (
            (me + int(draw.integers(1, n))) % n,
            ADD if draw.integers(3) == 0 else AtomicOp.SET,
        )
        part = (source if draw.integers(3) else mine.local)[first : first + size]
        if draw.integers(4):
            world.put(whole[me], part, to, offsets=(place,), op=how)
        else:
            sent[to] += 1
            world.put_signal(
                whole[me], part, to, counts, sent[to], index=me, offsets=(place,), op=how
            )
    world.barrier()
    found = [digest(*(array.local for array in whole)), counts.local.tolist()]
    world.barrier()
    for array in (*whole, counts, mine):
        array.free()
    return found


def atomics(world):
    """Each atomic operation on words of each size and sign, on every PE."""
    n, me, found = world.n_pes, world.my_pe, []
    for kind in ("i4", "i8", "u4", "u8"):
        a = world.alloc((n, 4), kind, poison=False)
        for pe in range(n):
            old = [world.fetch_add(a, 5, pe, index=4 * me), world.swap(a, 9, pe, index=4 * me)]
            old += [world.compare_swap(a, 9, 3, pe, index=4 * me), world.fetch(a, pe, index=4 * me)]
            world.signal_op(a, (1 << (8 * a.itemsize - (kind[0] == "i"))) - 1, pe, index=4 * me + 1)
            old.append(world.fetch(a, pe, index=4 * me + 1))
            found.append(old)
        world.barrier()
        found.append(digest(a.local))
        total = world.alloc(1, kind, poison=False)
        for _ in range(20):
            world.fetch_add(total, 1, 0)
        world.barrier()
        found.append(world.fetch(total, 0))
        world.barrier()
    return found


def signals(world):
    """A ring in which data follows its signal round, twice; then non-blocking puts and quiet."""
    n, me = world.n_pes, world.my_pe
    data, flag = world.alloc(1000, np.int64), world.alloc(2, np.int64, poison=False)
    if me == 0:
        world.put_signal(data, np.arange(1000), 1 % n, flag, 1)
    for lap in (1, 2):
        world.wait_until(flag, Cmp.GE, lap)
        if me or lap < 2:
            world.put_signal(data, data.local + 1, (me + 1) % n, flag, lap + (me == 0))
    world.barrier()
    for pe in range(n):
        world.put_nbi(data, np.full(50, me), pe, offsets=(50 * me,))
        world.put_signal_nbi(
            data, np.full(3, me), pe, flag, 1, index=1, offsets=(500 + 3 * me,), sig_op=ADD
        )
    world.quiet()
    world.wait_until(flag, Cmp.EQ, n, index=1)
    found = digest(data.local)
    world.barrier()
    return found


def locks(world):
    """A counter that is not atomic, under a lock that PEs of all hosts want."""
    lock, counter = world.alloc(1, np.int64, poison=False), world.alloc(1, np.int64)
    world.barrier()
    for _ in range(5):
        world.set_lock(lock)
        world.put(counter, world.get(counter, 0) + 1, 0)
        world.clear_lock(lock)
    world.barrier()
    found = int(world.get(counter, 0)[0])
    world.barrier()
    return found


def collectives(world):
    """Every collective, of small and of large arrays, of some dtypes, in place and not."""
    found = []
    for size in (3, 5000, 300_000):
        for dtype in (DTYPES[0], *(d for d in DTYPES if d.kind in "fV" or d == np.int32)):
            found += _collectives(world, size, dtype)
    return found


def _collectives(group, size, dtype):
    n, me = group.n_pes, group.my_pe
    mine = values(size, dtype, 31 * me + size)
    rows = values((n, size // n + 1), dtype, 37 * me + size)
    found = [digest(group.broadcast(mine if me == 1 % n else None, 1 % n))]
    found.append(digest(group.broadcast(mine, 0)))
    found.append(digest(group.all_gather(mine), group.all_to_all(rows)))
    found.append(digest(group.scatter(rows if me == 0 else None, 0)))
    collected = group.gather(mine, n - 1)
    found.append(None if collected is None else digest(collected))
    counts = [(me + pe) % 3 for pe in range(n)]
    found.append(digest(*group.all_to_all_v(mine[:1].repeat(sum(counts)), counts)))
    pairs = [(pe, (pe + 1) % n) for pe in range(n - 1)]
    found.append(digest(group.permute(mine, pairs)))
    found += [
        digest(group.all_reduce(mine, op), group.reduce_scatter(rows, op)) for op in ("sum", "max")
    ]
    place = group.alloc(size, dtype)
    place[...] = mine
    found.append(digest(group.all_reduce(place, out=place)))
    group.barrier()
    place.free()
    return found


def groups(world):
    """Groups of one host, of several, in other orders; their arrays, barriers and collectives."""
    n, me, found = world.n_pes, world.my_pe, []
    wanted = {
        "low": range(n // 2),
        "high": range(n // 2, n),
        "even": range(0, n, 2),
        "back": range(n)[::-1],
    }
    for name, members in wanted.items():
        if me not in members:
            continue
        group = world.group(name, list(members))
        found.append(_collectives(group, 700, np.dtype(np.float32)))
        a = group.alloc(5, np.int32, key="mine", name=name)
        group.put(a, np.full(5, me, np.int32), (group.my_pe + 1) % group.n_pes)
        group.barrier()
        found.append([digest(a.local), [x.name for x in group.find_allocs("mi")]])
        group.barrier()
        a.free()
    try:
        world.group("nobody")
    except CommError as error:
        found.append(type(error).__name__)
    world.barrier()
    return found


def wrong(world):
    """Errors are those of one host, and leave everything as it was; members that disagree all raise."""
    n, me, found = world.n_pes, world.my_pe, []
    a, s = world.alloc((4, 4), np.float32, name="a"), world.alloc(2, np.int64, name="s")
    far = (me + n // 2) % n
    calls = [
        lambda: world.put(a, np.zeros((5, 4), np.float32), far),
        lambda: world.put(a, np.zeros((4, 4), np.int32), far),
        lambda: world.put(a, np.zeros((2, 2), np.float32), far, offsets=(3, 0)),
        lambda: world.put(a, 1.0, far, op="add"),
        lambda: world.put("a", 1.0, far),
        lambda: world.put(a, np.zeros((4, 4), np.float32), n),
        lambda: world.get(a, far, shape=(9, 9)),
        lambda: world.get(a, -1),
        lambda: world.get(a, far, out=np.zeros(3)),
        lambda: world.fetch_add(s, 1 << 70, far),
        lambda: world.fetch_add(a, 1, far),
        lambda: world.signal_op(s, 1, far, index=2),
        lambda: world.put_signal(a, np.ones((4, 4), np.float32), far, s, 1, index=5),
        lambda: world.alloc(4, "O"),
        lambda: world.alloc(1 << 50, np.int8),
    ]
    for call in calls:
        try:
            call()
            found.append("no error")
        except CommError as error:
            found.append(f"{type(error).__name__}: {error}".split(": heap_size")[0])
    world.barrier()
    found.append(digest(a.local, s.local))
    for odd in (lambda: world.barrier(), lambda: world.all_reduce(np.zeros(3))):
        try:
            if me == n - 1:
                odd()
            else:
                world.all_gather(np.zeros(3))
        except CommError as error:
            found.append(type(error).__name__)
    found.append(digest(world.all_gather(np.array([me]))))
    return found


def random_program(world, seed):
    """A program drawn from a seed, the same on every PE: phases of operations that commute, with barriers between."""
    draw, n, me, found = np.random.default_rng(seed), world.n_pes, world.my_pe, []
    dtype = DTYPES[int(draw.integers(len(DTYPES)))]
    rows, columns = int(draw.integers(1, 40)), int(draw.integers(1, 3000))
    a = world.alloc((n, rows, columns), dtype, name="a")
    words = world.alloc((n, 3), np.int64, poison=False)
    for phase in range(int(draw.integers(3, 8))):
        kind = int(draw.integers(6))
        for pe in range(n):  # everybody draws what everybody does
            target, row = int(draw.integers(n)), int(draw.integers(rows))
            first = int(draw.integers(columns))
            extent, step = int(draw.integers(1, columns - first + 1)), int(draw.integers(1, 4))
            if pe != me:
                continue
            view = a[me, row:, first : first + extent : step]
            tile = values(view.shape, dtype, seed + 1000 * phase + me)
            if kind == 0:
                world.put(view, tile, target)
            elif kind == 1:  # a row of its own at each target: one adder an element
                world.put(view, tile, target, op=ADD)
            elif kind == 2:
                world.put_nbi(view, tile, target)
            elif kind == 3:
                found.append(digest(world.get(a[target, row:], target)))
            elif kind == 4:
                world.fetch_add(words, phase, target, index=3 * me)
        if kind == 5:
            found.append(digest(world.all_reduce(a.local[me]), world.all_gather(words.local)))
        world.barrier()
    found.append(digest(a.local, words.local))
    world.barrier()
    a.free()
    words.free()
    return found


def short_programs(world, first, end):
    """Many short random programs on arrays that they share; what each finds as one digest."""
    n = world.n_pes
    arrays = {}
    for number, dtype in enumerate(DTYPES):
        arrays[dtype] = world.alloc((n, 6, 40), dtype, name=f"short {number}")
    words = world.alloc((n, 4), np.int64, name="short words", poison=False)
    found = []
    for seed in range(first, end):
        draw = np.random.default_rng([seed, 22])
        a = arrays[DTYPES[int(draw.integers(len(DTYPES)))]]
        a.local[...] = values((n, 6, 40), a.dtype, seed + 7 * world.my_pe)
        words.local[...] = 0
        world.barrier()
        seen = []
        for phase in range(int(draw.integers(2, 6))):
            kind = SHORT_PHASES[int(draw.integers(len(SHORT_PHASES)))]
            kind(world, draw, a, words, seen, seed + 1000 * phase)
            world.barrier()
        found.append(digest(a.local, words.local, *seen))
        world.barrier()
    return found


def _store(world, draw, a, words, seen, seed):
    """Each PE stores some tiles of its own row, in one of the ways, perhaps several to one place."""
    n, me = world.n_pes, world.my_pe
    for pe in range(n):  # everybody draws what everybody does
        for again in range(int(draw.integers(1, 4))):
            target, how, row = (int(draw.integers(k)) for k in (n, 4, 6))
            first = int(draw.integers(39))
            end, step = int(draw.integers(first + 1, 41)), int(draw.integers(1, 4))
            if pe != me:
                continue
            view = a[me, row:, first:end:step]
            tile = values(view.shape, a.dtype, seed + me + 100 * again)
            if how == 3:
                world.quiet()  # nothing orders a put_nbi behind what was stored before
                world.put_nbi(view, tile, target)
                world.quiet()
            else:
                world.put(view, tile, target, op=ADD if how == 1 else AtomicOp.SET)


def _fetch(world, draw, a, words, seen, seed):
    """Each PE fetches a tile of another."""
    targets, row = draw.integers(world.n_pes, size=world.n_pes), int(draw.integers(6))
    seen.append(world.get(a[:, row, ::3], int(targets[world.my_pe])))


def _count(world, draw, a, words, seen, seed):
    """PEs add to words of all, and swap those of their own."""
    n, me = world.n_pes, world.my_pe
    for target in draw.integers(n, size=(n, 3))[me]:
        world.fetch_add(words, int(me + 1), int(target), index=0)
        seen.append(np.array([world.swap(words, seed, int(target), index=4 * me + 1)]))
    world.compare_swap(words, 0, me + 5, int(draw.integers(n)), index=4 * me + 2)


def _pass_on(world, draw, a, words, seen, seed):
    """A PE stores to a second and signals a third, which then fetches from the second: what was stored must be there."""
    first, second, third = (int(pe) for pe in draw.integers(world.n_pes, size=3))
    how = int(draw.integers(3))
    if world.my_pe == first:
        for again in range(3):
            world.put(a[first], values((6, 40), a.dtype, seed + again), second)
        if how == 0:
            world.signal_op(words, seed + 1, third, index=4 * first + 3)
        elif how == 1:
            world.fetch_add(words, seed + 1, third, index=4 * first + 3)
        else:
            world.put(words[first, 3], np.int64(seed + 1), third)
    if world.my_pe == third:
        world.wait_until(words, Cmp.GE, seed + 1, index=4 * first + 3)
        seen.append(world.get(a[first], second))
        words.local[first, 3] = 0


def _send(world, draw, a, words, seen, seed):
    """Data with a signal to one PE each, waited for there."""
    n, me = world.n_pes, world.my_pe
    order = draw.permutation(n).tolist()
    target, source = order[(order.index(me) + 1) % n], order[(order.index(me) - 1) % n]
    put = world.put_signal if draw.integers(2) else world.put_signal_nbi
    put(a[me], values((6, 40), a.dtype, seed + me), target, words, seed + 1, index=4 * me + 3)
    world.wait_until(words, Cmp.EQ, seed + 1, index=4 * source + 3)
    seen.append(a.local[source].copy())
    words.local[source, 3] = 0


def _combine(world, draw, a, words, seen, seed):
    """A collective of what stands in the array."""
    n, me = world.n_pes, world.my_pe
    rows = a.local[:, :, :7]
    calls = [
        lambda: world.all_reduce(a.local[me], "sum"),
        lambda: world.all_reduce(a.local[me, 0], "max"),
        lambda: world.all_gather(a.local[me, :2]),
        lambda: world.reduce_scatter(rows.reshape(n, 42), "sum"),
        lambda: world.broadcast(a.local[me], int(draw.integers(n))),
        lambda: world.all_to_all(rows.reshape(n, 42)),
    ]
    seen.append(calls[int(draw.integers(len(calls)))]())


SHORT_PHASES = (_store, _store, _fetch, _count, _pass_on, _send, _combine)


def number(world):
    """The number of the PE."""
    return world.my_pe


def refused(world):
    """What needs one host says so."""
    a, far = world.alloc(3, np.int32), (world.my_pe + world.n_pes // 2) % world.n_pes
    found = []
    for call in (lambda: a.on(far), lambda: world.reading(a, pe=far)):
        try:
            call()
            found.append("no error")
        except CommError as error:
            found.append(f"{type(error).__name__}: {error}")
    world.barrier()
    return found


PROGRAMS = (
    puts_and_gets,
    adds,
    large_transfers,
    overlapping_transfers,
    atomics,
    signals,
    locks,
    collectives,
    groups,
    wrong,
)


def run_all(names):
    world = emu.world()
    found = {}
    for name in names:
        program, *seeds = name.split(":")
        arguments = tuple(map(int, seeds))
        found[name] = globals()[program](world, *arguments)
    return found


def fail(how):
    """End badly, in one of several ways; others wait for ever."""
    world = emu.world()
    world.barrier()
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    print(f"pid {os.getppid()} {os.getpid()}", flush=True)
    if world.my_pe == world.n_pes - 1 and how == "raise":
        raise ValueError("seven is too many")
    if world.my_pe == world.n_pes - 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "compile":
        _compile_while_another_dies(world, flag)
    if how == "barrier" and world.my_pe == 1:
        world.wait_until(flag, Cmp.EQ, 5)
    elif how == "barrier":
        world.barrier()
    world.wait_until(flag, Cmp.EQ, 7)


def _compile_while_another_dies(world, flag):
    """The last PE is in what a stop cannot interrupt, as in a compiler, for longer than messages take; the first one dies."""
    if world.my_pe == world.n_pes - 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        world.segment.block(world.my_pe)[B_COMPILING] += 1
        world.signal_op(flag, 1, 0)
        world.quiet()
        time.sleep(6)
        world.segment.block(world.my_pe)[B_COMPILING] -= 1
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    elif world.my_pe == 0:
        world.wait_until(flag, Cmp.EQ, 1)
        os.kill(os.getpid(), signal.SIGKILL)


def churn():
    """Store, count, lock and combine, by collectives and by turns of servers, for ever, until something ends it."""
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    a, words = world.alloc((n, 50_000), np.float32), world.alloc(8, np.int64, poison=False)
    lock, draw = world.alloc(1, np.int64, poison=False), np.random.default_rng(me)
    world.barrier()
    print(f"pid {os.getppid()} {os.getpid()}", flush=True)
    while True:
        for _ in range(int(draw.integers(4))):
            target = int(draw.integers(n))
            size = int(draw.integers(1, 50_000))
            world.put(a[me, :size], np.ones(size, np.float32), target, op=ADD)
            world.fetch_add(words, 1, target)
            world.get(a[me], target)
        world.set_lock(lock)
        world.clear_lock(lock)
        world.all_reduce(a.local[me, :5000])
        with Hccl() as hccl:
            for source in (a.local[me, :4000], np.ones(4000, np.float32)):
                total = np.zeros(4000, np.float32)
                hccl.AllReduce(source, total, 1000, repeat=4, commit=True)
        world.barrier()


def say(what, found):
    """Leave what was found in a file of its own: on mpiexec's output lines of several processes get mixed."""
    folder, name = os.environ["HOST_PROGRAMS_FOLDER"], f"{what}-{os.getpid()}"
    with open(os.path.join(folder, f".{name}"), "w") as file:
        json.dump(found, file)
    os.replace(os.path.join(folder, f".{name}"), os.path.join(folder, name))  # whole, or not there


def main():
    from emu.comm.process.hosts import launch_over_hosts
    from emu.comm.process.launch_options import LaunchOptions

    n_here, names = int(sys.argv[1]), sys.argv[2:]
    if names[0].startswith("fail-"):
        how = names[0].removeprefix("fail-")
        options = LaunchOptions(timeout=1.0 if how == "barrier" else 60.0)
        print(f"launcher {os.getpid()}", flush=True)
        begin = time.monotonic()
        try:
            launch_over_hosts(fail, n_here, args=(how,), options=options)
        except ExceptionGroup as group:
            say("REPORT", [str(group), *map(str, group.exceptions)])
        print("TOOK", time.monotonic() - begin, flush=True)
        sys.exit(1)
    if names[0] == "churn":
        print(f"launcher {os.getpid()}", flush=True)
        try:
            launch_over_hosts(churn, n_here)
        except ExceptionGroup as group:
            say("REPORT", [str(group), *map(str, group.exceptions)])
            sys.exit(1)
        except KeyboardInterrupt:
            say("REPORT", ["KeyboardInterrupt"])
            sys.exit(130)
    found = launch_over_hosts(run_all, n_here, args=(names,))
    say("RESULTS", found)


if __name__ == "__main__":
    main()
