"""Random calls with one wrong argument: each is told with its line, program and PE, and changes nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import shmem, triton

N = 16
"""Words of 64 bits in the heap."""


@triton.jit
def loads(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        tl.store(mine, shmem.load(heap + at, pe))


@triton.jit
def stores(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.store(heap + at, 1, pe)


@triton.jit
def adds(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.atomic_add(heap + at, 1, pe)


@triton.jit
def puts(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.put(heap + at, mine, nbytes, pe)


@triton.jit
def gets(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.get(mine, heap + at, nbytes, pe)


@triton.jit
def puts_with_signal(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.put_signal(heap, mine, 8, heap + at, 1, pe)


@triton.jit
def signals(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.signal(heap + at, 1, pe, "add")


@triton.jit
def waits(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.wait_until(heap + at, "eq", 0)


@triton.jit
def signals_between_words(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        word = (heap.to(tl.pointer_type(tl.int8)) + at).to(tl.pointer_type(tl.int64))
        shmem.signal(word, 1, pe)


@triton.jit
def broadcasts(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        shmem.broadcast(heap + at, heap, nbytes, pe, team)


@triton.jit
def asks_team(heap, mine, at, nbytes, pe, team):
    if tl.program_id(0) == 1:
        tl.store(mine, shmem.my_pe(team))


PEER, PLACE, SIZE, TEAM, ODD = (
    "pe must be the number of a PE",
    r"(pointer|dst|src|flag) must lie in this PE's symmetric heap",
    r"nbytes must not be negative|(dst|src) must lie in this PE's symmetric heap",
    "team must be a team that this PE is a member of",
    "flag must lie at a multiple of 8 bytes",
)

CASES: list[tuple[Any, tuple[str, ...]]] = [
    (loads, (PEER, PLACE)),
    (stores, (PEER, PLACE)),
    (adds, (PEER, PLACE)),
    (puts, (PEER, PLACE, SIZE)),
    (gets, (PEER, PLACE, SIZE)),
    (puts_with_signal, (PEER, PLACE)),
    (signals, (PEER, PLACE)),
    (waits, (PLACE,)),
    (signals_between_words, (PEER, ODD)),
    (broadcasts, (TEAM,)),
    (asks_team, (TEAM,)),
]


def _wrong(draw: np.random.Generator, what: str, room: int, others: int) -> dict[str, int]:
    """Return arguments of which one is wrong."""
    given = {"at": int(draw.integers(N // 2)), "nbytes": 8, "pe": int(draw.integers(2)), "team": 0}

    def one_of(*numbers: int) -> int:
        return numbers[draw.integers(len(numbers))]

    some, far = int(draw.integers(1, 1000)), int(draw.integers(1 << 40, 1 << 60))
    changed = {
        PEER: {"pe": one_of(2, -1, 1 + some, -some, 2**31 - 1, far)},
        PLACE: {"at": one_of(-room // 8 - some, room // 8 + some, far // 8, -far // 8)},
        SIZE: {"nbytes": one_of(-1, -some, room + some, far, -far, 2**63 - 1)},
        TEAM: {"team": one_of(others, -1, -some, 100 + some, 2**31 - 1)},
        ODD: {"at": 8 * given["at"] + one_of(1, 2, 4, 7)},
    }
    return given | ({"at": 8 * given["at"]} if what == PEER else {}) | changed[what]


def tells(seed: int) -> list[tuple[str, str, str]]:
    """Return which kernel was called with what, what had to be said, and what was."""
    world = emu.world()
    heap = world.alloc(N, np.int64, poison=False)
    group = world.group("the other", [1]) if world.my_pe else None
    others = 1 if group is None else group.index
    before = np.arange(1, N + 1)
    heap.local[:] = before
    mine = np.full(N, 7, np.int64)
    world.barrier()
    found = []
    if not world.my_pe:
        draw = np.random.default_rng(seed)
        room = world.segment.layout.heap_room
        for kernel, ways in CASES:
            for what in ways:
                given = _wrong(draw, what, room, others)
                try:
                    kernel[(3,)](heap.local, mine, **given, num_threads=1)
                    said = "nothing"
                except Exception as error:  # noqa: BLE001 - each is looked at
                    said = f"{type(error).__name__}: {error}"
                found.append((f"{kernel.fn.__name__}({given})", what, said))
    world.barrier()
    assert (heap.local == before).all()
    assert (mine == 7).all()
    return found


def _line_of(kernel: Callable[..., object]) -> range:
    lines, first = inspect.getsourcelines(kernel)
    return range(first, first + len(lines))


def _check(seed: int) -> None:
    kernels = {kernel.fn.__name__: kernel.fn for kernel, _ in CASES}
    for call, what, said in emu.launch(tells, 2, args=(seed,))[0]:
        name = call.partition("(")[0]
        assert said.startswith("ProgramAssertionError: "), (call, said)
        assert re.search(what, said), (call, said)
        where = re.search(
            rf"\(kernel {name}, program \(1, 0, 0\), .*test_bad_input\.py:(\d+):\d+\)", said
        )
        assert where is not None, (call, said)
        assert int(where[1]) in _line_of(kernels[name]), (call, said)
        assert "my_pe = 0" in said, (call, said)


def test_a_wrong_argument_is_told_and_nothing_is_changed() -> None:
    _check(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
def test_many_wrong_arguments_are_told_and_nothing_is_changed(seed: int) -> None:
    _check(seed)
