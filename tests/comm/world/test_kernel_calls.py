"""Calls of compiled kernels in a World that somebody watches, made one by one."""

from __future__ import annotations

import numpy as np
import pytest

import emu
from emu.check.reports import CheckError
from emu.comm.sync import signal_numbers
from emu.comm.world.kernel_calls import _SeenCalls

RACE = emu.Checks(race=True)


def calls() -> list[int]:
    """Do what a kernel does on two PEs; return what came."""
    world = emu.world()
    seen, other = _SeenCalls(world), 1 - world.my_pe
    inbox, words = world.alloc(4, np.float32), world.alloc(2, np.uint64, poison=False)
    mine, back = np.full(4, 5 + world.my_pe, np.float32), np.zeros(4, np.float32)
    source, target = (a.__array_interface__["data"][0] for a in (mine, back))
    where, flag = inbox.offset, words.offset
    add = signal_numbers.ADD
    seen.put_signal(other, where, source, 16, flag, 8, add, 1)
    world.wait_until(words, emu.Cmp.EQ, 1)
    seen.waited(flag, -8, int(emu.Cmp.EQ), 1, 0)
    seen.quiet()
    seen.get(other, where, target, 16)
    seen.put(other, where, source, 0)  # of no bytes: nothing
    old = seen.atomic(other, flag + 8, 8, signal_numbers.SWAP, 9, 0)
    seen.arrive(0)
    found = [int(inbox.local[0]), int(back[0]), old, int(words.local[1])]
    seen.arrive(0)
    return found


@pytest.mark.parametrize(
    "options", [{}, {"checks": RACE}, {"link": emu.Link(bandwidth=1e9, latency=1e-6)}]
)
def test_calls_do_what_their_names_say(options: dict[str, object]) -> None:
    assert emu.launch(calls, 2, **options) == [[6, 5, 0, 9], [5, 6, 0, 9]]  # type: ignore[arg-type]


def was_overtaken(size: int, value: int) -> int:
    """Tell of a wait that was over before the word changed once more."""
    world = emu.world()
    word = world.alloc(1, np.dtype(f"i{size}"), poison=False)
    world.signal_op(word, value, world.my_pe)
    world.signal_op(word, value + 1, world.my_pe)
    return _SeenCalls(world).waited(word.offset, size, int(emu.Cmp.EQ), value, 0)


@pytest.mark.parametrize("size", [4, 8])
def test_a_word_may_have_changed_since_it_was_seen(size: int) -> None:
    assert emu.launch(was_overtaken, 1, args=(size, 3), checks=RACE, timeout=5) == [0]


def sends_without_a_fence(fences: bool) -> float:
    world = emu.world()
    seen, other = _SeenCalls(world), 1 - world.my_pe
    inbox, flag = world.alloc(4, np.float32), world.alloc(1, np.int64, poison=False)
    mine = np.ones(4, np.float32)
    seen.put(other, inbox.offset, mine.__array_interface__["data"][0], 16)
    if fences:
        seen.fence()
    seen.atomic(other, flag.offset, 8, signal_numbers.SET, 1, 0)
    world.wait_until(flag, emu.Cmp.EQ, 1)
    return float(inbox.local.sum())


def test_a_listener_takes_them_for_the_programs_own() -> None:
    assert emu.launch(sends_without_a_fence, 2, args=(True,), checks=RACE) == [4, 4]
    with pytest.raises(CheckError, match="put of a kernel"):
        emu.launch(sends_without_a_fence, 2, args=(False,), checks=RACE)
