"""Kernels that load, store and change elements of other PEs, beside which the same on one host finds the same bits.

``python element_programs.py N NAME ...`` runs programs under mpiexec with N PEs a host, and leaves what all PEs have found in a
file of the folder ``HOST_PROGRAMS_FOLDER``. ``draws:FIRST:END`` are random programs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
from host_programs import digest, values

import emu
import emu.triton.language as tl
from emu import shmem, triton
from emu.kernels.core.dtypes import BFLOAT16

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)
U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
STORED = (np.dtype(np.bool_), *map(np.dtype, ("i1", "u1", "i2", "u2")), I32, U32, I64, U64)
STORED += (F16, BFLOAT16, F32, F64)
OPERATIONS = {
    "add": (I32, U32, I64, U64, F16, BFLOAT16, F32, F64),
    "min": (I32, U32, I64, U64, F32, F64),
    "max": (I32, U32, I64, U64, F32, F64),
    "and": (I32, U32, I64, U64),
    "or": (I32, U32, I64, U64),
    "xor": (I32, U32, I64, U64),
    "xchg": (I32, U32, I64, U64, F32, F64),
    "cas": (I32, U32, I64, U64, F16, BFLOAT16, F32, F64),
}


@triton.jit
def strew(heap, indices, mask, given, pe, n: tl.constexpr):
    i = tl.arange(0, n)
    shmem.store(heap + tl.load(indices + i), tl.load(given + i), pe, tl.load(mask + i) != 0)


@triton.jit
def pick(heap, indices, mask, out, pe, n: tl.constexpr):
    i = tl.arange(0, n)
    wanted = tl.load(mask + i) != 0
    tl.store(out + i, shmem.load(heap + tl.load(indices + i), pe, wanted, 1))
    tl.store(out + n + i, shmem.load(heap + tl.load(indices + i), pe, wanted))
    tl.store(out + 2 * n, shmem.load(heap + tl.load(indices), pe))


@triton.jit
def change(words, indices, mask, given, old, pe, op: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    at, value, wanted = words + tl.load(indices + i), tl.load(given + i), tl.load(mask + i) != 0
    if op == "add":
        found = shmem.atomic_add(at, value, pe, wanted)
    elif op == "min":
        found = shmem.atomic_min(at, value, pe, wanted)
    elif op == "max":
        found = shmem.atomic_max(at, value, pe, wanted)
    elif op == "and":
        found = shmem.atomic_and(at, value, pe, wanted)
    elif op == "or":
        found = shmem.atomic_or(at, value, pe, wanted)
    elif op == "xor":
        found = shmem.atomic_xor(at, value, pe, wanted, "relaxed")
    elif op == "xchg":
        found = shmem.atomic_xchg(at, value, pe, wanted)
    else:
        found = shmem.atomic_cas(at, tl.load(given + n + i), value, pe)
    tl.store(old + i, found)


@triton.jit
def tiles(board, seen, pe, rows: tl.constexpr, columns: tl.constexpr, pitch):
    """Tiles of two axes: whole rows, a transposed one, one with a ragged edge."""
    r, c = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
    me = shmem.my_pe()
    value = me * 10000 + r * 100 + c
    shmem.store(board + r * pitch + c, value, pe)
    shmem.store(board + rows * pitch + c * pitch + r, value, pe, (r < rows - 1) & (c > 0))
    shmem.quiet()
    back = shmem.load(board + r * pitch + c, pe, c < columns - 2, -1)
    tl.store(seen + r * columns + c, back)
    total = tl.sum(shmem.load(board + rows * pitch + tl.arange(0, rows), pe))
    tl.store(seen + rows * columns, total)


@triton.jit
def long_run(data, seen, pe, n: tl.constexpr):
    i = tl.arange(0, n)
    shmem.store(data + i, i * 3 + shmem.my_pe(), pe)
    tl.store(seen + i, shmem.load(data + i, pe, i < n - 5, -7))


@triton.jit
def pass_on(data, flag, seen, turns):
    """Behind a store comes a signal: whoever sees the one sees the other, on the next PE and, through it, on the one behind."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right, i = (me + 1) % n_pes, tl.arange(0, 32)
    for turn in range(turns):
        if (me > 0) | (turn > 0):
            shmem.wait_until(flag, "eq", n_pes * turn + me)
        shmem.store(data + 32 * me + i, i + 100 * turn + me, right)
        shmem.fence()
        shmem.store(flag, n_pes * turn + me + 1, right)
    shmem.wait_until(flag, "ge", n_pes * (turns - 1) + me)
    shmem.barrier()
    tl.store(seen + i, tl.load(data + 32 * ((me + n_pes - 1) % n_pes) + i))


@triton.jit
def by_hops(data, flag, seen):
    """PE 0 stores to the last PE, and signals to the first but one; it signals to the last one, which looks."""
    me, n_pes, i = shmem.my_pe(), shmem.n_pes(), tl.arange(0, 64)
    if me == 0:
        shmem.store(data + i * 2, i + 5, n_pes - 1)
        shmem.atomic_add(flag, 1, 1)
    if me == 1:
        shmem.wait_until(flag, "ge", 1)
        shmem.atomic_xchg(flag + 1, 9, n_pes - 1)
    if me == n_pes - 1:
        shmem.wait_until(flag + 1, "eq", 9)
    tl.store(seen + i, tl.load(data + i * 2))


@triton.jit
def count_up(counter, limit, olds, n: tl.constexpr):
    """All PEs count the same words, each in a loop of compare and swap, and in one of adding."""
    for _ in range(n):
        seen = shmem.load(counter, 0)
        found = shmem.atomic_cas(counter, seen, seen + 1, 0)
        while found != seen:
            seen = found
            found = shmem.atomic_cas(counter, seen, seen + 1, 0)
    for _ in range(n):
        tl.atomic_max(olds, shmem.atomic_add(counter + 1, 1, shmem.n_pes() - 1))
    shmem.atomic_max(limit + tl.arange(0, 4), shmem.my_pe() * 5 + tl.arange(0, 4), 0)
    shmem.barrier()


@triton.jit
def grid_of_them(data, total, seen, n: tl.constexpr):
    """Each program of a grid for one PE: all store, add and load there."""
    pe, i = tl.program_id(0) % shmem.n_pes(), tl.arange(0, n)
    at = data + (shmem.my_pe() * tl.num_programs(0) + tl.program_id(0)) * n + i
    shmem.store(at, tl.program_id(0) * 1000 + i, pe)
    shmem.atomic_add(total + i, i + 1, pe)
    tl.store(seen + tl.program_id(0) * n + i, shmem.load(at, pe, i > 2))


@triton.jit
def reduces(dst, src, count, op: tl.constexpr, team):
    shmem.reduce(dst, src, count, op, team)


@triton.jit
def stores_where(data, pe, index):
    shmem.store(data + index, 1, pe)


@triton.jit
def loads_where(data, pe, index, out):
    i = tl.arange(0, 16)
    tl.store(out + i, shmem.load(data + index + i * i, pe, i < 9))


@triton.jit
def adds_where(data, pe, index):
    shmem.atomic_add(data + index, 1, pe)


@triton.jit
def dereferences(data, pe, out):
    tl.store(out, tl.load(shmem.remote(data, pe)))


@triton.jit
def waits_for_each_other(flag):
    """Each stores to the other one, but not the word that it waits for."""
    shmem.store(flag + 1, 1, 1 - shmem.my_pe())
    shmem.wait_until(flag, "eq", 1)


def stores_and_loads(world):
    """Elements of every dtype at any places, to and from every PE."""
    found, n, me = [], world.n_pes, world.my_pe
    for number, dtype in enumerate(STORED):
        heap = world.alloc(n * 256, dtype, name=f"heap {number}")
        heap.local[:] = values(n * 256, dtype, 7 * me + number)
        world.barrier()
        draw = np.random.default_rng([number, me])
        for pe in range(n):
            indices = 256 * me + draw.integers(0, 256, 64)
            mask, given = draw.integers(0, 3, 64).astype(np.uint8), values(64, dtype, number + me)
            strew[(1,)](heap.local, indices, mask, given, pe, 64)
        world.barrier()
        found.append(digest(heap.local))
        for pe in range(n):
            indices = draw.integers(0, n * 256, 64)
            mask = draw.integers(0, 3, 64).astype(np.uint8)
            out = np.zeros(129, dtype)
            pick[(1,)](heap.local, indices, mask, out, pe, 64)
            found.append(digest(out))
        world.barrier()
    return found


def updates(world):
    """Every atomic operation in every dtype, at any places of every PE; of words that only this PE changes, what was there."""
    found, n, me = [], world.n_pes, world.my_pe
    for number, (op, dtypes) in enumerate(OPERATIONS.items()):
        for kind, dtype in enumerate(dtypes):
            words = world.alloc(n * 64, dtype, name=f"words {number} {kind}")
            words.local[:] = values(n * 64, dtype, me)
            world.barrier()
            draw = np.random.default_rng([number, kind, me])
            for pe in range(n):
                indices = 64 * me + draw.integers(0, 64, 32)
                mask = draw.integers(0, 3, 32).astype(np.uint8)
                given, old = np.zeros(64, dtype), np.zeros(32, dtype)
                given[:] = values(64, dtype, number + pe)
                if op == "cas":  # some of them are there
                    given[32:] = np.where(mask > 0, world.get(words, pe)[indices], given[32:])
                change[(1,)](words.local, indices, mask, given, old, pe, op, 32)
                found.append(digest(old))
            world.barrier()
            found.append(digest(words.local))
            world.barrier()
    return found


def special_floats(world):
    """NaN, infinities and zeros of both signs, kept, compared and stored bit by bit."""
    found, me = [], world.my_pe
    odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1.5]
    other = (me + world.n_pes // 2) % world.n_pes
    for dtype in (F32, F64):
        words = world.alloc(64, dtype)
        for op in ("min", "max", "xchg", "cas"):
            words.local[:] = np.repeat(odd, 8)
            world.barrier()
            given, old = np.tile(np.array(odd, dtype), 16), np.zeros(64, dtype)
            ones = np.ones(64, np.uint8)
            change[(1,)](words.local, np.arange(64), ones, given, old, other, op, 64)
            world.barrier()
            found.append(digest(old, words.local))
            world.barrier()
    return found


def shapes(world):
    """Tiles of two axes, long runs, single elements; programs of a grid beside each other."""
    n, me = world.n_pes, world.my_pe
    board = world.alloc((32, 40), np.int32)
    data = world.alloc(8192, np.int32)
    found = []
    for step in range(n):
        pe = (me + step) % n
        board.local[:] = data.local[:] = 0
        world.barrier()
        seen, run = np.zeros(8 * 16 + 1, np.int32), np.zeros(8192, np.int32)
        tiles[(1,)](board.local, seen, pe, 8, 16, 40)
        long_run[(1,)](data.local, run, pe, 8192)
        world.barrier()
        found.append(digest(seen, run, board.local, data.local))
        world.barrier()
    return found


def ways(world):
    """Many programs on two threads; with checks of bounds; interpreted."""
    n, me, programs = world.n_pes, world.my_pe, 12
    found = []
    for options in ({"num_threads": 2}, {"check": "bounds"}, {"interpret": True}):
        data = world.alloc(n * programs * 16, np.int32, poison=False)
        total, seen = world.alloc(16, np.int32, poison=False), np.zeros(programs * 16, np.int32)
        grid_of_them[(programs,)](data.local, total.local, seen, 16, **options)
        world.barrier()
        found.append(digest(data.local, total.local, seen))
        indices, mask = np.arange(16) * 3, np.arange(16).astype(np.uint8) % 3
        out = np.zeros(33, np.int32)
        pick[(1,)](data.local, indices, mask, out, (me + n // 2) % n, 16, **options)
        found.append(digest(out))
        world.barrier()
    return found


def orders(world):
    """What is stored is there when a signal, or a store behind a fence, comes, on whichever host."""
    n, me = world.n_pes, world.my_pe
    data, flag = world.alloc(64 * n, np.int64), world.alloc(2, np.int64, poison=False)
    data.local[:] = 0
    world.barrier()
    seen, found = np.zeros(64, np.int64), []
    pass_on[(1,)](data.local, flag.local, seen, 3)
    found.append(digest(seen, data.local))
    flag.local[:] = 0
    world.barrier()
    for _ in range(5):
        by_hops[(1,)](data.local, flag.local, seen)
        found.append(digest(seen) if me == n - 1 else "")
        world.barrier()
        data.local[:] = flag.local[:] = 0
        world.barrier()
    return found


def counters(world):
    """Words that all PEs change at once."""
    counter, limit = world.alloc(2, np.int64, poison=False), world.alloc(4, np.int32, poison=False)
    olds = np.zeros(1, np.int64)
    count_up[(1,)](counter.local, limit.local, olds, 12)
    found = [counter.local.tolist(), limit.local.tolist()]
    return [*found, world.all_reduce(olds, "max").tolist()]


def reductions(world):
    """Reductions of all PEs and of some, in place and not, of several dtypes, in the order of the members."""
    found, n, me = [], world.n_pes, world.my_pe
    odd = world.group("all but the first", range(1, n)) if me else None
    for team in (world, odd):
        for number, (op, dtype) in enumerate(
            [
                ("sum", F32),
                ("sum", BFLOAT16),
                ("prod", F64),
                ("max", I32),
                ("xor", U64),
                ("min", F16),
            ]
        ):
            src, dst = world.alloc(1000, dtype), world.alloc(1000, dtype)
            src.local[:], dst.local[:] = values(1000, dtype, 10 * me + number), 0
            world.barrier()
            for count, target in ((1, dst), (700, dst), (999, src)):
                if team is not None:
                    reduces[(1,)](target.local, src.local, count, op, shmem.team(team))
                world.barrier()
            found.append(digest(src.local, dst.local))
            world.barrier()
    return found


def errors(world):
    """What is wrong, which is refused before anything is changed: text of the error, less what differs by process."""
    far = (world.my_pe + world.n_pes // 2) % world.n_pes
    data, out = world.alloc(64, np.int32, poison=False), np.zeros(16, np.int32)
    found = []
    before = 1 << 45
    for call in (
        lambda: stores_where[(1,)](data.local, world.n_pes, 0),
        lambda: stores_where[(1,)](data.local, -1, 0),
        lambda: stores_where[(1,)](data.local, far, before),
        lambda: loads_where[(1,)](data.local, far, -before, out),
        lambda: adds_where[(1,)](data.local, far, before),
        lambda: adds_where[(1,)](data.local, world.n_pes + 3, 0),
        lambda: stores_where[(1,)](np.zeros(4, np.int32), far, 0),
    ):
        try:
            call()
            found.append("no error")
        except Exception as error:  # noqa: BLE001 - its text is what is looked at
            text = f"{type(error).__name__}: {error}"
            found.append([line for line in text.splitlines() if "pointer = " not in line])
    world.barrier()
    found.append(data.local.tolist())
    return found


def refused(world):
    """A pointer of ``remote`` to another host."""
    data, out = world.alloc(64, np.int32, poison=False), np.zeros(1, np.int32)
    data.local[:] = world.my_pe
    world.barrier()
    found = []
    for pe in range(world.n_pes):
        try:
            dereferences[(1,)](data.local, pe, out)
            found.append(int(out[0]))
        except Exception as error:  # noqa: BLE001 - its text is what is looked at
            found.append(f"{type(error).__name__}: {error}")
    world.barrier()
    return found


def draws(world, first, end):
    """Random programs: rounds of stores, updates and loads of random elements, with barriers between."""
    return [_draw(world, seed) for seed in range(first, end)]


def _draw(world, seed):
    n, me, found = world.n_pes, world.my_pe, []
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, me])
    for _ in range(2):
        dtype = STORED[common.integers(len(STORED))]
        size, width = int(common.choice([1, 16, 128, 1024])), int(common.choice([16, 200, 2000]))
        heap = world.alloc(n * width, dtype)
        heap.local[:] = values(n * width, dtype, seed + me)
        op = list(OPERATIONS)[common.integers(len(OPERATIONS))]
        changed = OPERATIONS[op][common.integers(len(OPERATIONS[op]))]
        words = world.alloc(n * width, changed)
        words.local[:] = values(n * width, changed, seed + me)
        world.barrier()
        for _ in range(int(own.integers(1, 4))):
            pe = int(own.integers(n))
            indices, mask = _places(own, width, size), own.integers(0, 4, size).astype(np.uint8)
            given = values(size, dtype, int(own.integers(1 << 30)))
            strew[(1,)](heap.local, width * me + indices, mask, given, pe, size)
            many, old = np.zeros(2 * size, changed), np.zeros(size, changed)
            many[:] = values(2 * size, changed, int(own.integers(1 << 30)))
            indices = width * me + _places(own, width, size)
            change[(1,)](words.local, indices, mask, many, old, pe, op, size)
            out = np.zeros(2 * size + 1, dtype)
            pick[(1,)](heap.local, indices, mask, out, pe, size)  # its own part of them
            found.append(digest(old, out))
        world.barrier()
        indices = own.integers(0, n * width, size)
        pick[(1,)](heap.local, indices, mask, out, int(own.integers(n)), size)
        found.append(digest(heap.local, words.local, out))
        world.barrier()
    return found


def _places(draw, width, size):
    """Return any places, or some that lie one behind the other."""
    if size <= width and draw.integers(2):
        return draw.integers(0, width - size + 1) + np.arange(size)
    return draw.integers(0, width, size)


SAME = (
    *(stores_and_loads, updates, special_floats, shapes, ways, orders),
    *(counters, reductions, errors),
)
"""Programs that find the same on one host and over several."""


def run_all(names):
    """Run programs by name; return what each has found."""
    world, found = emu.world(), {}
    for name in names:
        program, *seeds = name.split(":")
        found[name] = globals()[program](world, *map(int, seeds))
    return found


def deadlocks():
    """Each PE waits for a word that nobody stores."""
    world = emu.world()
    flag = world.alloc(2, np.int64, name="flag", poison=False)
    world.barrier()
    waits_for_each_other[(1,)](flag.local)


def main():
    """Run the programs that the command line names in each process that mpiexec has started."""
    n_pes, names = int(sys.argv[1]), sys.argv[2:]
    if names == ["deadlocks"]:
        emu.launch(deadlocks, n_pes, transport="mpi", timeout=2.0)
        return
    found = emu.launch(run_all, n_pes, args=(names,), transport="mpi")
    path = Path(os.environ["HOST_PROGRAMS_FOLDER"], f"ELEMENTS-{os.getpid()}")
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
