"""Random programs in which one member calls another operator: an error on every member, every time, at that call.

A program is a list of calls, the same on all PEs but for one random change on one of them. `agreed` says
what of a call must be the same. The calls before the first that differs must give the right values; at that
call every member must raise. Then the communicator says that it cannot be used any more, or works (a
mixture of experts agrees before anything moves); the world works.

``EMU_MISMATCH_PROGRAMS`` sets how many programs each number of PEs runs.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
from emu import mc2
from emu.comm.errors import ArgumentError, ServerError, TaskMismatchError
from emu.mc2 import Hccl

PROGRAMS = int(os.environ.get("EMU_MISMATCH_PROGRAMS", "60"))
DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
DENSE = (
    "all_gather_matmul",
    "matmul_reduce_scatter",
    "matmul_all_reduce",
    "matmul_all_reduce_add_rms_norm",
    "all_to_all_matmul",
    "matmul_all_to_all",
)
FIRST = ("all_gather_matmul", "all_to_all_matmul", "alltoallv_gmm")
"""Where communication comes first, x1 crosses the wire; else the result."""
TASKS = ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AlltoAllV")
EXPERTS = ("alltoallv_gmm", "gmm_alltoallv", "moe_distribute_dispatch", "moe_distribute_combine")


@dataclass(frozen=True)
class Call:
    """A call: sizes are in units of the number of PEs where they must be divisible by it."""

    name: str
    m: int
    k: int
    n: int
    dtype: str
    turns: int

    def agreed(self) -> tuple[Any, ...]:
        """Return what must be the same on every member."""
        sent: tuple[int, ...] = (self.m, self.n)
        if self.name in TASKS:
            sent = (self.m * self.n,)
        elif self.name in FIRST:
            sent = (self.m, self.k)
        elif self.name.startswith("moe"):
            sent = (self.m, self.k, self.n)
        return (self.name, *sent, self.dtype, self.turns)


def random_call(rng: random.Random, names: tuple[str, ...]) -> Call:
    sizes = [rng.choice((4, 8)) for _ in range(3)]
    return Call(rng.choice(names), *sizes, rng.choice(sorted(DTYPES)), rng.choice((1, 1, 2)))


def changed(rng: random.Random, call: Call, names: tuple[str, ...]) -> Call:
    """Return another call that differs in one thing, or has two sizes exchanged."""
    what = rng.choice(("name", "m", "k", "n", "dtype", "turns", "exchange"))
    if what == "exchange":
        return replace(call, m=call.k, k=call.m, n=call.m)
    if what == "name":
        return replace(call, name=rng.choice([n for n in names if n != call.name]))
    value = getattr(call, what)
    others = {"dtype": sorted(DTYPES), "turns": (1, 2)}.get(what, (4, 8))
    return replace(call, **{what: rng.choice([v for v in others if v != value])})


def programs(rng: random.Random, n_pes: int, names: tuple[str, ...]) -> list[list[Call]]:
    """Return the calls of each PE."""
    calls = [random_call(rng, names) for _ in range(rng.randrange(1, 4))]
    odd, where = rng.randrange(n_pes), rng.randrange(len(calls))
    other = list(calls)
    change = rng.random()
    if change < 0.7:
        other[where] = changed(rng, calls[where], names)
    elif change < 0.8:
        del other[where]
    elif change < 0.9:
        other.insert(where, random_call(rng, names))
    else:
        rng.shuffle(other)
    last = Call(names[0], 12, 12, 12, "fp16", 1)  # ends each program; no other call is like it
    return [[*(other if pe == odd else calls), last] for pe in range(n_pes)]


# --- what the calls give ------------------------------------------------------------------------


def small(seed: list[int], shape: tuple[int, ...], dtype: str) -> Any:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(DTYPES[dtype])


def dense(group: Any, calls: list[Call], key: list[int]) -> tuple[Any, Any]:
    """Call a dense operator; return the result and what it should be.

    Each PE has its own part of k where partial products are summed.
    """
    r, me = group.n_pes, group.my_pe
    call = calls[me]
    m, n = call.m * r, call.n * r
    depths = [c.k * r if call.name == "all_to_all_matmul" else c.k for c in calls]
    x1s = [small([*key, pe, 1], (m, c.k), call.dtype) for pe, c in enumerate(calls)]
    x2s = [small([*key, pe, 2], (deep, n), call.dtype) for pe, deep in enumerate(depths)]
    more: dict[str, Any] = {}
    if call.name == "matmul_all_reduce_add_rms_norm":
        zeros = np.zeros((m, n), DTYPES[call.dtype])
        more = {"residual": zeros, "gamma": zeros[0]}
    got = getattr(mc2, call.name)(x1s[me], x2s[me], group=group, comm_turn=call.turns, **more)
    wide = [x.astype(np.float64) for x in x1s], [x.astype(np.float64) for x in x2s]
    products = [a @ b for a, b in zip(*wide, strict=True) if a.shape[1] == len(b)]
    blocks = [slice(pe * call.m, (pe + 1) * call.m) for pe in range(r)]
    if call.name == "all_gather_matmul":
        return got[0], np.concatenate(wide[0]) @ wide[1][me]
    if call.name == "all_to_all_matmul":
        return got, np.concatenate([x[blocks[me]] for x in wide[0]], 1) @ wide[1][me]
    if call.name == "matmul_all_to_all":
        columns = slice(me * call.n, (me + 1) * call.n)
        return got, np.concatenate([p[:, columns] for p in products])
    total = sum(products)
    if call.name == "matmul_reduce_scatter":
        return got, total[blocks[me]]
    return got[0] if isinstance(got, tuple) else got, total


def task(group: Any, calls: list[Call], key: list[int]) -> tuple[Any, Any]:
    """Run a kernel of one task; return the result and what it should be."""
    r, me = group.n_pes, group.my_pe
    call = calls[me]
    count, turns = call.m * call.n, call.turns
    whole = count * turns
    sent = [small([*key, pe], (r, whole), call.dtype) for pe in range(r)]
    out = np.zeros((r, whole), DTYPES[call.dtype])
    how: dict[str, Any] = {"repeat": turns, "commit": True}
    with Hccl(group) as hccl:
        if call.name == "AlltoAllV":
            places = [pe * whole for pe in range(r)]
            hccl.AlltoAllV(sent[me], [count] * r, places, None, out, [count] * r, places, **how)
        elif call.name == "AllReduce":
            hccl.AllReduce(sent[me], out, count, **how)
        else:
            getattr(hccl, call.name)(sent[me], out, count, strideCount=whole, **how)
    wide = [x.astype(np.float64) for x in sent]
    if call.name == "AllReduce":
        return out[0], sum(wide)[0]
    if call.name == "AllGather":
        return out, np.stack([x[0] for x in wide])
    if call.name == "ReduceScatter":
        return out[0], sum(wide)[me]
    return out, np.stack([x[me] for x in wide])


def experts(group: Any, calls: list[Call], key: list[int]) -> tuple[Any, Any]:
    """Call an operator of a mixture of experts; every expert gets as many rows from every rank."""
    r, me, call = group.n_pes, group.my_pe, calls[group.my_pe]
    kind = DTYPES[call.dtype]
    e, h, n, each = call.m, call.k, call.n, 2
    counts = np.full(r * e, each)
    if call.name in ("alltoallv_gmm", "gmm_alltoallv"):
        x, weight = np.ones((r * e * each, h), kind), np.ones((e, h, n), kind)
        got = getattr(mc2, call.name)(x, weight, counts, counts, group=group, comm_turn=call.turns)
        depths = [h] * r if call.name == "alltoallv_gmm" else [c.k for c in calls]  # by rank
        return got[0], np.repeat(np.repeat(depths, e * each)[:, None], n, 1)
    ids = np.repeat(np.arange(r * e, dtype=np.int32), each)[:, None]
    how = {"group": group, "moe_expert_num": r * e, "global_bs": call.n * 100 * r * call.turns}
    if call.name == "moe_distribute_dispatch":
        sent = mc2.moe_distribute_dispatch(np.full((len(ids), h), me + 1, kind), ids, **how)
        rows = np.tile(np.repeat(np.arange(1, r + 1), each), e)
        return sent.expand_x, np.repeat(rows[:, None], h, 1)
    back = mc2.moe_distribute_combine(
        np.full((len(ids), h), 2, kind), ids, np.arange(len(ids), dtype=np.int32), counts,
        np.ones(ids.shape, np.float32), **how,
    )  # fmt: skip
    return back, np.full((len(ids), h), 2)


# --- programs -----------------------------------------------------------------------------------

RUN = {"dense": (dense, DENSE), "tasks": (task, TASKS), "experts": (experts, EXPERTS)}


def run_programs(kind: str, seed: int, number: int) -> list[str]:
    """Run programs; return what was not as it should be."""
    world = emu.world()
    run, names = RUN[kind]
    rng = random.Random(f"{seed} {kind}")
    wrong = []
    for program in range(number):
        lists = programs(rng, world.n_pes, names)
        group = world if kind == "experts" else world.group(f"{program}", range(world.n_pes))
        shortest = min(len(calls) for calls in lists)
        first = next(
            (i for i in range(shortest) if len({calls[i].agreed() for calls in lists}) > 1),
            None,
        )
        text = f"program {program} of {seed}, PE {world.my_pe}: {lists}: "
        for index, call in enumerate(lists[world.my_pe]):
            key = [seed, program, index]
            try:
                calls = [other[index] if index < len(other) else call for other in lists]
                got, expected = run(group, calls, key)
            except (ArgumentError, TaskMismatchError) as error:
                if index != first:
                    wrong.append(f"{text}raised at {index} in place of {first}: {error}")
                break
            if index == first or not np.array_equal(got.astype(np.float64), expected):
                wrong.append(f"{text}call {index} went through, or is wrong")
                break
        if first is not None and kind != "experts":
            with pytest.raises(ServerError, match="cannot be used any more"):
                Hccl(group)
        elif group is not world:
            group.server.stop()
        world.barrier()
    return wrong


@pytest.mark.parametrize("n_pes", thorough([2, 3, 4], 3))
@pytest.mark.parametrize("kind", sorted(RUN))
def test_every_difference_is_found_on_every_member(kind, n_pes):
    for wrong in emu.launch(run_programs, n_pes, args=(kind, 10 + n_pes, PROGRAMS), timeout=60):
        assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])
