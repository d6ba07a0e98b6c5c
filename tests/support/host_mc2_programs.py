"""Programs of Hccl and MC2 whose results must have the same bits on one host and over several.

As those of ``host_programs``: ``python host_mc2_programs.py N NAME ...`` runs them under mpiexec.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from pathlib import Path

import numpy as np
from host_programs import digest, say, values

import emu
from emu.comm.process.mpi import launched_rank
from emu.comm.server.tasks import NUMPY_DTYPES, REDUCED_DTYPES
from emu.mc2 import Hccl

COMMANDS = ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AlltoAllV")
_DTYPES = list(NUMPY_DTYPES.values())
_REDUCED = [NUMPY_DTYPES[number] for number in sorted(REDUCED_DTYPES)]


class Room:
    """Memory of one kernel's tasks: symmetric memory in which arrays lie one behind the other, or arrays of their own."""

    def __init__(self, group, heap):
        self.heap, self.at = heap, 0
        self.group = group

    def array(self, size, dtype, symmetric):
        if not symmetric:
            return np.zeros(size, dtype)
        start = -(-self.at // 64) * 64
        self.at = start + size * dtype.itemsize
        return self.heap.local[start : self.at].view(dtype)


def prepare(hccl, group, draw, room, seed):
    """Prepare a task that is drawn, the same on every member but for where it lies; return handle, turns and output."""
    command = COMMANDS[int(draw.integers(len(COMMANDS)))]
    reduces = command in ("AllReduce", "ReduceScatter")
    kinds = _REDUCED if reduces else _DTYPES
    dtype = kinds[int(draw.integers(len(kinds)))]
    scale = (1, 1, 10)[int(draw.integers(3))]  # some rows are messages of their own between hosts
    count, repeat = scale * int(draw.integers(0, 400)), int(draw.integers(1, 5))
    op = (0, 2, 3)[int(draw.integers(3))]
    gap = int(draw.integers(3))
    in_heap = draw.integers(2, size=(group.n_pes, 2))[group.my_pe].tolist()
    commits = bool(draw.integers(2))
    n, me = group.n_pes, group.my_pe
    stride = count * repeat + gap
    spread = max(1, n * stride)
    sizes = {
        "AllReduce": (max(1, count * repeat),) * 2,
        "AllGather": (max(1, count * repeat), spread),
        "ReduceScatter": (spread, max(1, count * repeat)),
        "AlltoAll": (spread, spread),
    }
    counts = scale * draw.integers(0, 60, size=(n, n))
    if command == "AlltoAllV":
        sent, received = counts[me].tolist(), counts[:, me].tolist()
        rows = [np.concatenate([[0], np.cumsum(c)]) * repeat for c in (sent, received)]
        sizes[command] = int(rows[0][-1]) + 1, int(rows[1][-1]) + 1
    send, recv = (
        room.array(size, dtype, where) for size, where in zip(sizes[command], in_heap, strict=True)
    )
    send[...] = values(send.shape, dtype, seed + me)
    if command == "AlltoAllV":
        handle = hccl.AlltoAllV(
            *(send, sent, rows[0][:-1].tolist(), None, recv, received, rows[1][:-1].tolist()),
            repeat=repeat,
            commit=commits,
        )
    elif command == "AllReduce":
        handle = hccl.AllReduce(send, recv, count, op=op, repeat=repeat, commit=commits)
    else:
        more = {"op": op} if reduces else {}
        call = getattr(hccl, command)
        handle = call(send, recv, count, strideCount=stride, repeat=repeat, commit=commits, **more)
    return handle, repeat, commits, recv


def hccl_programs(world, first, end, group=None):
    """Random kernels: some tasks, whose turns are released at once or one by one while others are on their way."""
    group = group if group is not None else world
    heap = group.alloc(16 << 20, np.uint8, name="tasks", key="tasks")
    found = []
    for seed in range(first, end):
        draw = np.random.default_rng([seed, 51])
        room = Room(group, heap)
        with Hccl(group) as hccl:
            posted = [
                prepare(hccl, group, draw, room, 1000 * seed + 10 * task)
                for task in range(int(draw.integers(1, 6)))
            ]
            seen = []
            for handle, repeat, commits, recv in posted:
                for _ in range(0 if commits else repeat):
                    hccl.Commit(handle)
                if draw.integers(2):
                    for _ in range(repeat):
                        assert hccl.Wait(handle) == 0
                    seen.append(recv.copy())
        found.append(digest(*seen, *(recv for *_, recv in posted)))
    return found


def tasks(first, end):
    """Random kernels on all PEs."""
    return hccl_programs(emu.world(), first, end)


def tasks_of_groups(first, end):
    """Random kernels in groups whose members are in other orders than their hosts, one by one and two at a time."""
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    orders = {"back": [*range(n)][::-1], "mixed": [*range(0, n, 2), *range(1, n, 2)]}
    found = []
    for name, members in orders.items():
        found += hccl_programs(world, first, end, world.group(name, members))
    half = n // 2
    pair = world.group(f"pair {me % half}", [me % half, me % half + half])
    again = world.group("again", orders["mixed"])
    other = []
    thread = threading.Thread(target=lambda: other.extend(hccl_programs(world, first, end, pair)))
    thread.start()
    found += hccl_programs(world, first + 500, end + 500, again)
    thread.join()
    return found + other


def turns_of_all_ranks():
    """The times of turns of every rank are known on every rank, each on the clock of its own host."""
    world = emu.world()
    out = np.zeros(100 * world.n_pes, np.float32)
    with Hccl() as hccl:
        hccl.AllGather(np.ones(100, np.float32), out, 20, strideCount=100, repeat=5, commit=True)
    rows = hccl.Turns()
    assert all(row.start_ns <= row.end_ns for row in rows)
    return sorted((row.rank, row.task, row.turn) for row in rows)


def stored_before_a_turn():
    """Who has waited for a turn sees what its other members had stored before they released it."""
    world = emu.world()
    n, me, found = world.n_pes, world.my_pe, []
    data = world.alloc((n, 50_000), np.int32)
    mine, out = np.zeros(1, np.int32), np.zeros(n, np.int32)
    for lap in range(5):
        world.put(data[me], np.full(50_000, 10 * lap + me, np.int32), (me + 2) % n)
        with Hccl() as hccl:
            hccl.Wait(hccl.AllGather(mine, out, 1, commit=True))
            found.append(data.local[(me - 2) % n, ::9999].tolist())
        world.barrier()
    return found


def stored_before_a_turn_here():
    """The same in a group of one host: a member that has waited fetches what another has stored elsewhere."""
    world = emu.world()
    n, me, found = world.n_pes, world.my_pe, []
    half = n // 2
    first = me // half * half
    group = world.group(f"half {first}", range(first, first + half))
    far, mate = (me + half) % n, first + (me + 1 - first) % half
    data = world.alloc((n, 50_000), np.int32)
    mine, out = np.zeros(1, np.int32), np.zeros(half, np.int32)
    for lap in range(5):
        world.put(data[me], np.full(50_000, 10 * lap + me, np.int32), far)
        with Hccl(group) as hccl:
            hccl.Wait(hccl.AllGather(mine, out, 1, commit=True))
            found.append(world.get(data[mate], (mate + half) % n)[::9999].tolist())
        world.barrier()
    return found


def run(name):
    """Call a function of this module, ``NAME:ARGUMENTS``, or of a test of tests/mc2, ``FILE.NAME:ARGUMENTS`` in JSON."""
    called, _, arguments = name.partition(":")
    file, _, function = called.rpartition(".")
    found = globals()
    if file:
        path = Path(__file__).parents[1] / "mc2" / f"{file}.py"
        spec = importlib.util.spec_from_file_location(file, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file] = module  # dataclasses look there
        spec.loader.exec_module(module)
        found = vars(module)
    return repr(found[function](*json.loads(arguments or "[]")))


def main():
    from emu.comm.process.hosts import launch_over_hosts
    from emu.comm.process.launch_options import LaunchOptions

    n_here, names = int(sys.argv[1]), sys.argv[2:]
    for number, name in enumerate(names):
        try:
            options = LaunchOptions(timeout=60.0)
            found = launch_over_hosts(run, n_here, args=(name,), options=options)
            say(f"RESULTS {number}", [launched_rank(), found])
        except ExceptionGroup as group:
            say(f"REPORT {number}", [str(group), *map(str, group.exceptions)])


if __name__ == "__main__":
    main()
