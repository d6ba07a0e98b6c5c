"""Random programs in which one member calls something else: every difference is found, on every member, every time.

A program is a list of calls for each PE, the same for all but for one random change. `expected` says by a
simulation of rendezvous which calls come through and which differ; the PEs must see just that, and what
comes through must have the right values. All programs of a launch run in the same world, one after the
other, so that whatever an error leaves behind would show in the next.

``EMU_MISMATCH_PROGRAMS`` sets how many programs each number of PEs runs.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import CollectiveMismatchError
from emu.comm.world.group import Group

PROGRAMS = int(os.environ.get("EMU_MISMATCH_PROGRAMS", "100"))
SIZES = (1, 8, 8, 3000, 50_000)
DTYPES = ("int32", "int64", "float32")
OPS = ("sum", "max", "min")
KINDS = (
    "barrier", "barrier", "broadcast", "scatter", "gather", "all_gather", "all_reduce", "all_reduce",
    "reduce_scatter", "all_to_all", "permute",
)  # fmt: skip
ROOTED = ("broadcast", "scatter", "gather")


@dataclass(frozen=True)
class Call:
    """A call; two members agree when their calls are equal."""

    group: str
    kind: str
    size: int = 0
    dtype: str = ""
    op: str = ""
    root: int = 0
    shift: int = 0


FINISH = Call("world", "all_reduce", 2, "float64", "max")
"""Ends each program; no other call is like it."""


def groups_of(n_pes: int) -> dict[str, list[int]]:
    groups = {"world": list(range(n_pes))}
    if n_pes >= 3:
        groups["back"] = list(range(n_pes))[::-1][:2]  # members in another order
    if n_pes >= 4:
        groups["low"] = list(range(n_pes // 2))
    return groups


def random_call(rng: random.Random, group: str, members: int) -> Call:
    kind = rng.choice(KINDS)
    if kind == "barrier":
        return Call(group, kind)
    call = Call(group, kind, rng.choice(SIZES), rng.choice(DTYPES))
    if kind in ("all_reduce", "reduce_scatter"):
        call = replace(call, op=rng.choice(OPS))
    if kind in ROOTED:
        call = replace(call, root=rng.randrange(members))
    return replace(call, shift=rng.randrange(members)) if kind == "permute" else call


def changed(rng: random.Random, call: Call, members: int) -> Call:
    """Return another call of the same group, which differs in one thing or in all."""
    while True:
        other = call
        if call.kind == "barrier" or rng.random() < 0.3:
            other = random_call(rng, call.group, members)
        elif rng.random() < 0.5:
            other = replace(call, size=rng.choice(SIZES))
        elif call.op and rng.random() < 0.5:
            other = replace(call, op=rng.choice(OPS))
        elif call.kind in ROOTED and rng.random() < 0.5:
            other = replace(call, root=rng.randrange(members))
        elif call.kind == "permute" and rng.random() < 0.5:
            other = replace(call, shift=rng.randrange(members))
        else:
            other = replace(call, dtype=rng.choice(DTYPES))
        if other != call:
            return other


def make_program(rng: random.Random, groups: dict[str, list[int]]) -> dict[int, list[Call]]:
    """Return each PE's calls: alike, but for one change of one PE."""
    order = []
    for _ in range(rng.randrange(2, 6)):
        name = rng.choice(list(groups)) if rng.random() < 0.3 else "world"
        order.append(random_call(rng, name, len(groups[name])))
    program = {pe: [call for call in order if pe in groups[call.group]] for pe in groups["world"]}
    calls = program[rng.choice(groups["world"])]
    at = rng.randrange(len(calls)) if calls else 0
    way = rng.choice(("change", "change", "drop", "insert", "swap", "keep"))
    if way == "change" and calls:
        calls[at] = changed(rng, calls[at], len(groups[calls[at].group]))
    elif way == "drop" and calls:
        del calls[at]
    elif way == "insert":
        calls.insert(at, random_call(rng, "world", len(groups["world"])))
    elif way == "swap" and len(calls) > 1:
        other = rng.randrange(len(calls))
        calls[at], calls[other] = calls[other], calls[at]
    return program


def same_call(calls: list[Call]) -> bool:
    """Say whether calls agree; members that leave the shape to the root are like it in the rest."""
    if len(set(calls)) == 1:
        return True
    first = calls[0]
    # The root alone says what it scatters.
    return first.kind == "scatter" and len({(call.kind, call.root) for call in calls}) == 1


def expected(
    program: dict[int, list[Call]], groups: dict[str, list[int]]
) -> tuple[dict[int, list[bool]], bool]:
    """Return for each PE whether each of its calls came through, and whether the program ends at all."""
    left = {pe: [*calls, FINISH] for pe, calls in program.items()}
    seen: dict[int, list[bool]] = {pe: [] for pe in program}
    while any(left.values()):
        for name, members in groups.items():
            heads = [left[pe][0] for pe in members if left[pe]]
            if len(heads) < len(members) or any(call.group != name for call in heads):
                continue
            agree = same_call(heads)
            for pe in members:
                seen[pe].append(agree)
                left[pe] = left[pe][1:] if agree else [FINISH]
            break
        else:
            return seen, False  # members wait for each other in different groups: a deadlock
    return seen, True


def block(call: Call, pe: int, rows: int, number: int) -> np.ndarray:
    rng = np.random.default_rng([number, pe])
    shape = (rows, call.size) if rows else (call.size,)
    return rng.integers(-1000, 1000, shape).astype(call.dtype)


def make_call(group: Group, call: Call, number: int) -> None:
    """Make the call, and check what it gives."""
    me, n = group.my_pe, group.n_pes
    if call.kind == "barrier":
        return group.barrier()
    rows = n if call.kind in ("scatter", "reduce_scatter", "all_to_all") else 0
    blocks = np.stack([block(call, pe, rows, number) for pe in range(n)])
    mine = blocks[me]
    reduce: Callable[..., Any] = {"max": np.max, "min": np.min}.get(call.op, np.sum)
    if call.kind == "broadcast":
        got, want = group.broadcast(mine, call.root), blocks[call.root]
    elif call.kind == "scatter":
        got = group.scatter(mine if me == call.root else None, call.root)
        want = blocks[call.root][me] if got.shape == mine[0].shape else None
        if want is None or got.dtype != want.dtype:
            return None  # the root scattered what it liked: that is no disagreement
    elif call.kind == "gather":
        got = group.gather(mine, call.root)
        want = blocks if me == call.root else None
    elif call.kind == "all_gather":
        got, want = group.all_gather(mine), blocks
    elif call.kind == "all_reduce":
        got, want = group.all_reduce(mine, call.op), reduce(blocks, axis=0)
    elif call.kind == "reduce_scatter":
        got, want = group.reduce_scatter(mine, call.op), reduce(blocks, axis=0)[me]
    elif call.kind == "all_to_all":
        got, want = group.all_to_all(mine), blocks[:, me]
    else:
        pairs = [(pe, (pe + call.shift) % n) for pe in range(n)]
        got, want = group.permute(mine, pairs), blocks[(me - call.shift) % n]
    assert (got is None) == (want is None)
    if want is not None:
        assert np.array_equal(got, want.astype(call.dtype)), f"wrong values of {call}"
    return None


def run_programs(first: int, count: int) -> tuple[int, int]:
    """Run programs; return how many were run, and how many had a mismatch."""
    world = emu.world()
    lists = groups_of(world.n_pes)
    groups = {
        name: world if name == "world" else world.group(name, members)
        for name, members in lists.items()
        if world.my_pe in members
    }
    ran = differed = 0
    for number in range(first, first + count):
        rng = random.Random(f"{world.n_pes} {number}")
        program = make_program(rng, lists)
        outcomes, ends = expected(program, lists)
        if not ends:
            continue
        seen = []
        calls = [*program[world.my_pe], FINISH]
        jitter = random.Random(f"{world.my_pe} {number}")
        while calls:
            call = calls.pop(0)
            if jitter.random() < 0.3:
                time.sleep(jitter.choice((0, 0, 1e-5, 3e-4)))
            try:
                make_call(groups[call.group], call, number)
                seen.append(True)
            except CollectiveMismatchError as error:
                seen.append(call.kind not in str(error))  # it must name what was called
                calls = [FINISH]
        assert seen == outcomes[world.my_pe], (number, program, seen, outcomes[world.my_pe])
        ran += 1
        differed += not all(all(each) for each in outcomes.values())
    return ran, differed


@pytest.mark.parametrize("n_pes", thorough(range(2, 9), 2, 5))
def test_every_mismatch_is_found(n_pes: int) -> None:
    found = emu.launch(run_programs, n_pes, args=(0, PROGRAMS), timeout=60, heap_size=1 << 28)
    assert len(set(found)) == 1
    ran, differed = found[0]
    assert ran > PROGRAMS * 0.8
    assert differed > ran * 0.4


def late_header(size: int, rounds: int) -> int:
    """The defect of old: a barrier let a late member's header pass, whose data was not there yet."""
    world = emu.world()
    found = 0
    for turn in range(rounds):
        mine = np.full(size, world.my_pe + 1.0, np.float32)
        late = turn % world.n_pes
        try:
            if world.my_pe == late:
                world.barrier()
                world.all_reduce(mine)
            else:
                world.all_reduce(mine)
                world.barrier()
        except CollectiveMismatchError:
            found += 1
    return found


@pytest.mark.parametrize("size", [8, 50_000])
def test_a_barrier_never_stands_for_a_collective(size: int) -> None:
    assert emu.launch(late_header, 3, args=(size, 300), timeout=60) == [300] * 3


def in_other_groups() -> None:
    world = emu.world()
    one, other = (world.group(name, range(world.n_pes)) for name in ("one", "other"))
    order = (one, other) if world.my_pe else (other, one)
    for group in order:
        group.all_reduce(np.ones(4))


def test_calls_in_different_groups_are_a_deadlock_that_is_told() -> None:
    with pytest.raises(ExceptionGroup, match="deadlock: nobody can release") as caught:
        emu.launch(in_other_groups, 3, timeout=60)
    text = str(caught.value)
    assert "PE 0 waits in barrier of group 'other (all_reduce)'" in text
    assert "PE 1 waits in barrier of group 'one (all_reduce)'" in text
