"""Races of kernels whose calls of the machine order nothing: what they load and store is told one by one."""

from __future__ import annotations

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import shmem, triton
from emu.check.reports import CheckError
from emu.triton.errors import GridRaceError

RACE = emu.Checks(race=True)


@triton.jit
def puts_and_loads(inbox, out, n: tl.constexpr):
    i = tl.arange(0, n)
    shmem.put(inbox, out, n * 4, 1 - shmem.my_pe())
    tl.store(out + i, tl.load(inbox + n + i))  # of the host: the other half


@triton.jit
def puts_and_loads_too_early(inbox, out, n: tl.constexpr):
    i = tl.arange(0, n)
    shmem.put(inbox, out, n * 4, 1 - shmem.my_pe())
    tl.store(out + i, tl.load(inbox + i))


def runs(early: bool) -> None:
    world = emu.world()
    inbox = world.alloc(32, np.float32, poison=False)
    world.barrier()
    kernel = puts_and_loads_too_early if early else puts_and_loads
    kernel[(1,)](inbox.local, np.ones(16, np.float32), 16)
    world.barrier()


def test_a_load_beside_a_put_is_seen() -> None:
    emu.launch(runs, 2, args=(False,), checks=RACE)
    with pytest.raises(CheckError, match="put") as caught:
        emu.launch(runs, 2, args=(True,), checks=RACE)
    told = str(caught.value)
    assert "shmem.put(inbox, out" in told
    assert "load" in told


@triton.jit
def stores_far(inbox, n: tl.constexpr):
    shmem.store(inbox + tl.arange(0, n), 1.0, 1 - shmem.my_pe())


def stores(ordered: bool) -> float:
    world = emu.world()
    inbox = world.alloc(16, np.float32, poison=False)
    world.barrier()
    stores_far[(1,)](inbox.local, 16)
    if ordered:
        world.barrier()
    found = float(inbox.local.sum())
    world.barrier()
    return found


def test_a_store_to_another_pe_is_seen() -> None:
    assert emu.launch(stores, 2, args=(True,), checks=RACE) == [16, 16]
    with pytest.raises(CheckError, match="nothing orders them") as caught:
        emu.launch(stores, 2, args=(False,), checks=RACE)
    assert "stores_far" in str(caught.value)


@triton.jit
def sums_of_programs(inbox, out, apart: tl.constexpr):
    own = tl.program_id(0) if apart else 0
    found = shmem.load(inbox, 0)
    tl.store(out + own, found + tl.program_id(0))


def programs(apart: bool) -> str:
    inbox, out = emu.world().alloc(1, np.float32, poison=False), np.zeros(2, np.float32)
    try:
        sums_of_programs[(2,)](inbox.local, out, apart, check="race")
    except GridRaceError as error:
        return str(error)
    return ""


def test_programs_that_load_from_other_pes_are_compared() -> None:
    assert emu.launch(programs, 1, args=(True,)) == [""]
    (told,) = emu.launch(programs, 1, args=(False,))
    assert "sums_of_programs" in told
    assert "tl.store(out + own" in told
