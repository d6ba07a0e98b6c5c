"""The device API: what each function does to memory of other PEs, on 1 to 3 PEs, compiled and interpreted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import shmem, triton
from emu.check.reports import CheckError
from emu.comm.errors import ArgumentError, CommError

BACKENDS = ["cpu", "reference"]


@triton.jit
def names(out, team):
    tl.store(out, shmem.my_pe())
    tl.store(out + 1, shmem.n_pes())
    tl.store(out + 2, shmem.my_pe(team))
    tl.store(out + 3, shmem.n_pes(team))
    tl.store(out + 4, shmem.world_pe(0, team))


def says_names(backend: str) -> list[int]:
    world = emu.world()
    group = world.group("odd", range(1, world.n_pes)) if world.my_pe else world
    out = np.zeros(5, np.int32)
    names[(1,)](out, shmem.team(group), backend=backend)
    found: list[int] = out.tolist()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_there_is(backend: str) -> None:
    found = emu.launch(says_names, 3, args=(backend,))
    assert found == [[0, 3, 0, 3, 0], [1, 3, 0, 2, 1], [2, 3, 1, 2, 1]]


@triton.jit
def elements(inbox, seen, count, n: tl.constexpr):
    """Store to the right, load from the left, add everywhere."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right, left = (me + 1) % n_pes, (me + n_pes - 1) % n_pes
    i = tl.arange(0, n)
    shmem.store(inbox + i, me * 100.0 + i, right, mask=i < n - 1)
    shmem.barrier()
    tl.store(seen + i, shmem.load(inbox + i, left, mask=i > 0, other=-1.0))
    for pe in range(n_pes):
        shmem.atomic_add(count + i % 4, i, pe)
        tl.atomic_max(shmem.remote(count + 4, pe), me)
    shmem.barrier()


def uses_elements(backend: str) -> tuple[Any, ...]:
    world = emu.world()
    n = 16
    inbox, count = world.alloc(n, np.float32), world.alloc(5, np.int32, poison=False)
    seen = np.zeros(n, np.float32)
    elements[(1,)](inbox.local, seen, count.local, n, backend=backend)
    return inbox.local.tolist(), seen.tolist(), count.local.tolist()


# Updates by the interpreter are not atomic among processes.
@pytest.mark.parametrize(("backend", "n_pes"), [("cpu", 1), ("cpu", 3), ("reference", 1)])
def test_elements_of_other_pes(backend: str, n_pes: int) -> None:
    n = 16
    for me, (inbox, seen, count) in enumerate(emu.launch(uses_elements, n_pes, args=(backend,))):
        assert inbox == [(me - 1) % n_pes * 100 + i if i < n - 1 else 0 for i in range(n)]
        assert seen == [-1, *((me - 2) % n_pes * 100 + i for i in range(1, n - 1)), 0]
        assert count == [*(n_pes * sum(range(r, n, 4)) for r in range(4)), n_pes - 1]


@triton.jit
def blocks(inbox, out, back, flag, n: tl.constexpr):
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right = (me + 1) % n_pes
    shmem.put_signal(inbox, out, n * 4, flag, 7, right)
    got = shmem.wait_until(flag, "ge", 5)
    shmem.put(inbox + n, out, n * 4, me)
    shmem.quiet()  # else the get may come before what was sent to the same place
    shmem.get(back, inbox, n * 4, right)
    shmem.signal(flag + 1, got, right, "add")
    shmem.signal(flag + 1, 1, right, "add")
    shmem.wait_until(flag + 1, "eq", 8)
    tl.store(back + n, shmem.test(flag + 1, "lt", 8).to(tl.float32))
    shmem.barrier()


def moves_blocks(backend: str) -> tuple[Any, ...]:
    world = emu.world()
    n = 33
    inbox, flag = world.alloc(2 * n, np.float32), world.alloc(2, np.uint64, poison=False)
    out = np.arange(n, dtype=np.float32) + 100 * world.my_pe
    back = np.full(n + 1, 9, np.float32)
    blocks[(1,)](inbox.local, out, back, flag.local, n, backend=backend)
    return inbox.local.tolist(), back.tolist(), flag.local.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_pes", [1, 3])
def test_blocks_and_signals(backend: str, n_pes: int) -> None:
    n = 33
    for me, (inbox, back, flag) in enumerate(emu.launch(moves_blocks, n_pes, args=(backend,))):
        assert inbox[:n] == [(me - 1) % n_pes * 100 + i for i in range(n)]
        assert inbox[n:] == [me * 100 + i for i in range(n)]
        assert back == [*(me * 100 + i for i in range(n)), 0]
        assert flag == [7, 8]


@triton.jit
def swaps(word, out):
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    right = (me + 1) % n_pes
    tl.store(out, shmem.atomic_cas(word, 3, 10 + me, right))
    tl.store(out + 1, shmem.atomic_xchg(word, 50, right))
    tl.store(out + 2, shmem.atomic_or(word, 1, right))
    tl.store(out + 3, shmem.atomic_and(word, 19, right))
    tl.store(out + 4, shmem.atomic_xor(word, 3, right))
    tl.store(out + 5, shmem.atomic_min(word, -4, right))
    tl.store(out + 6, shmem.atomic_max(word, 6, right))


def uses_swaps(backend: str) -> tuple[Any, ...]:
    world = emu.world()
    word = world.alloc(1, np.int64, poison=False)
    word.local[0] = 3
    world.barrier()
    out = np.zeros(7, np.int64)
    swaps[(1,)](word.local, out, backend=backend)
    world.barrier()
    return out.tolist(), int(word.local[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_atomics(backend: str) -> None:
    for me, (out, word) in enumerate(emu.launch(uses_swaps, 2, args=(backend,))):
        assert out == [3, 10 + me, 50, 51, 19, 16, -4]
        assert word == 6


@triton.jit
def gives_and_takes(flag, order):
    """Program 0 waits for what program 1 of the other PE does."""
    other = 1 - shmem.my_pe()
    if tl.program_id(0) == 0:
        shmem.wait_until(flag, "ge", 1)
        tl.store(order, 1)
    else:
        shmem.signal(flag, 1, other)


def waits_for_a_later_program() -> int:
    world = emu.world()
    flag, order = world.alloc(1, np.int32, poison=False), np.zeros(1, np.int32)
    gives_and_takes[(2,)](flag.local, order)
    return int(order[0])


def test_a_program_waits_for_a_later_one_of_another_pe() -> None:
    assert emu.launch(waits_for_a_later_program, 2) == [1, 1]


@triton.jit
def signals_once(flag, peer):
    shmem.signal(flag, 3, peer)


def host_waits() -> int:
    world = emu.world()
    flag = world.alloc(1, np.int64, poison=False)
    if world.my_pe == 0:
        signals_once[(1,)](flag.local, 1)
        return 0
    return world.wait_until(flag, emu.Cmp.EQ, 3)


def test_a_signal_of_a_kernel_wakes_a_wait_of_the_host() -> None:
    assert emu.launch(host_waits, 2) == [0, 3]


@triton.jit
def meets(team):
    shmem.barrier(team)


def meets_the_host() -> str:
    world = emu.world()
    group = world.group("all of them", range(world.n_pes))
    for _ in range(3):
        if world.my_pe == 0:
            meets[(1,)](shmem.team(group))
        else:
            group.barrier()
    return "met"


def test_a_barrier_meets_that_of_the_host() -> None:
    assert emu.launch(meets_the_host, 3) == ["met"] * 3


# --- what a program may not do ----------------------------------------------------------------


@triton.jit
def stores_to(pointer, peer):
    shmem.store(pointer + tl.arange(0, 4), 1, peer)


@triton.jit
def puts_to(dst, src, nbytes, peer):
    shmem.put(dst, src, nbytes, peer)


@triton.jit
def signals_to(flag, peer):
    shmem.signal(flag, 1, peer)


@triton.jit
def of_team(out, team):
    tl.store(out, shmem.my_pe(team))


def told() -> dict[str, str]:
    """Return what each wrong call says; nothing may be changed by any."""
    world = emu.world()
    heap = world.alloc(8, np.int32, poison=False)
    mine = np.zeros(8, np.int32)
    end = world.segment.layout.heap_room
    calls: dict[str, Any] = {
        "peer behind": lambda: stores_to[(1,)](heap.local, 2),
        "peer before": lambda: puts_to[(1,)](heap.local, mine, 4, -1),
        "not symmetric": lambda: stores_to[(1,)](mine, 0),
        "dst": lambda: puts_to[(1,)](mine, heap.local, 4, 0),
        "too long": lambda: puts_to[(1,)](heap.local, mine, end, 0),
        "far too long": lambda: puts_to[(1,)](heap.local, mine, 2**62, 0),
        "negative": lambda: puts_to[(1,)](heap.local, mine, -4, 0),
        "team": lambda: of_team[(1,)](mine, 99),
        "width": lambda: signals_to[(1,)](heap.local.view(np.int16), 0),
        "float": lambda: signals_to[(1,)](heap.local.view(np.float32), 0),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = "nothing"
        except Exception as error:  # noqa: BLE001 - each is looked at
            found[name] = f"{type(error).__name__}: {error}"
    world.barrier()
    assert not heap.local.any()
    return found


def test_what_is_wrong_is_told_before_anything_is_changed() -> None:
    found = emu.launch(told, 2)[0]
    for name, said in {
        "peer behind": "pe must be the number of a PE, at least 0 and below n_pes",
        "peer before": "pe must be the number of a PE, at least 0 and below n_pes",
        "not symmetric": "pointer must lie in this PE's symmetric heap",
        "dst": "dst must lie in this PE's symmetric heap",
        "too long": "dst must lie in this PE's symmetric heap",
        "far too long": "dst must lie in this PE's symmetric heap",
        "negative": "nbytes must not be negative",
        "team": "team must be a team that this PE is a member of",
        "width": "flag must point to integers of 32 or 64 bits",
        "float": "flag must point to integers of 32 or 64 bits",
    }.items():
        assert said in found[name], name
    assert "pe = 2" in found["peer behind"]
    assert "n_pes = 2" in found["peer behind"]
    assert "test_device.py" in found["peer behind"]


@triton.jit
def unknown(flag):
    shmem.wait_until(flag, "is", 1)


@triton.jit
def of_two(flag, peer):
    shmem.signal(flag + tl.arange(0, 2), 1, peer)


def refused() -> list[str]:
    heap = emu.world().alloc(8, np.int32, poison=False)
    found = []
    for call in (
        lambda: unknown[(1,)](heap.local),
        lambda: of_two[(1,)](heap.local, 0),
        lambda: stores_to[(1,)](heap.local, 1.5),
        lambda: stores_to[(1,)](5, 0),
    ):
        with pytest.raises(Exception, match="must be") as caught:
            call()
        found.append(str(caught.value))
    return found


def test_what_the_compiler_refuses() -> None:
    (found,) = emu.launch(refused, 1)
    assert "cmp must be one of 'eq', 'ne'" in found[0]
    assert "flag must be a single pointer to symmetric memory" in found[1]
    assert "pe must be a single integer" in found[2]
    assert "pointer must be a pointer, or a tensor of pointers, to symmetric memory" in found[3]


def test_without_a_world_a_launch_says_so() -> None:
    with pytest.raises(CommError, match=r"emu\.world\(\) must be called in a PE"):
        of_team[(1,)](np.zeros(1, np.int32), 0)


def test_a_team_is_a_group() -> None:
    with pytest.raises(ArgumentError, match="group must be a World or a group of one"):
        shmem.team(3)  # type: ignore[arg-type]


def waits_in_vain() -> None:
    world = emu.world()
    flag = world.alloc(2, np.int64, poison=False)
    if world.my_pe == 0:
        waits[(1,)](flag.local)
    else:
        meets[(1,)](0)


@triton.jit
def waits(flag):
    shmem.wait_until(flag + 1, "ge", 3)


def test_a_wait_in_vain_is_explained() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(waits_in_vain, 2, timeout=2)
    told = str(caught.value)
    assert re.search(r"PE 0 waits in kernel waits .* for flag\[1\] \(i64 at 0x\w+\) of PE 0", told)
    # Under checks the barrier is a call of Python, which the watchdog tells in its own words.
    assert re.search(
        r"barrier of group .world.(, which 1 of 2 PEs have reached|: 1 of 2 have arrived)", told
    )


def misses_a_barrier() -> None:
    world = emu.world()
    pair = world.group("pair", [0, 2]) if world.my_pe != 1 else None
    if world.my_pe == 0 and pair is not None:
        meets[(1,)](shmem.team(pair))


def test_a_barrier_that_somebody_misses_is_told_with_its_team_and_who_is_missing() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(misses_a_barrier, 3, timeout=2)
    told = str(caught.value)
    assert re.search(r"PE 2 has ended .*, but PE 0 waits for it in barrier of group 'pair'", told)
    waits = r"PE 0 waits in kernel meets .*, in barrier of group 'pair': 1 of 2 have arrived, missing PEs \[2\]"
    assert re.search(waits, told), told


# --- worlds that somebody watches -----------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"link": emu.Link(bandwidth=1e9, latency=2e-6)},
        {"checks": emu.Checks(race=True)},
        {"checks": emu.Checks(bounds=True)},
    ],
    ids=["linked", "checked", "bounded"],
)
@pytest.mark.parametrize("program", [moves_blocks, uses_swaps, uses_elements])
def test_watched_worlds_do_the_same(program: Any, options: dict[str, Any]) -> None:
    plain = emu.launch(program, 2, args=("cpu",))
    assert emu.launch(program, 2, args=("cpu",), **options) == plain


@pytest.mark.parametrize("example", ["all_reduce", "matmul_reduce_scatter"])
def test_kernels_that_run_as_python(example: str) -> None:
    program = Path(__file__).parents[4] / "examples" / "shmem" / f"{example}.py"
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "2", program],
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


@triton.jit
def puts_and_signals(inbox, out, flag, ordered: tl.constexpr):
    peer = 1 - shmem.my_pe()
    shmem.put(inbox, out, 64, peer)
    if ordered:
        shmem.fence()
    shmem.signal(flag, 1, peer)
    shmem.wait_until(flag, "eq", 1)


def reads_what_came(ordered: bool) -> float:
    world = emu.world()
    inbox, flag = world.alloc(16, np.float32), world.alloc(1, np.int64, poison=False)
    puts_and_signals[(1,)](inbox.local, np.ones(16, np.float32), flag.local, ordered)
    return float(inbox.local.sum())


def test_a_missing_fence_is_found() -> None:
    assert emu.launch(reads_what_came, 2, args=(True,), checks=emu.Checks(race=True)) == [16, 16]
    with pytest.raises(CheckError, match="put") as caught:
        emu.launch(reads_what_came, 2, args=(False,), checks=emu.Checks(race=True))
    assert "    shmem.put(" in str(caught.value)  # the line in the kernel
