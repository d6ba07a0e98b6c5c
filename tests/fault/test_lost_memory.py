"""Memory that cannot be had: a PE ends as where shared memory has run full."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

import emu
from emu.comm.process.death import how_it_died

WORDS = 4 * mmap.PAGESIZE // 8


def uses_its_second_array(part: str) -> str:
    world = emu.world()
    first, second = world.alloc(WORDS, np.int64), world.alloc(WORDS, np.int64, name="second")
    first.local[:] = 1
    world.barrier()
    if part == "others":
        if world.my_pe == 1:
            world.put(second, np.ones(WORDS, np.int64), 0)
            assert world.get(second, 0).all()
    elif part == "store":
        second.local[WORDS // 2] = 1
    elif part == "load":
        assert not second.local.any()
    elif part == "put":
        world.put(second, np.ones(WORDS, np.int64), world.my_pe)
    world.barrier()
    return "done"


@pytest.mark.parametrize("part", ["store", "load", "put"])
def test_the_first_use_ends_the_pe_as_full_shared_memory_does(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "enospc:pe=1,nth=2"
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(uses_its_second_array, 2, args=(part,), faults=emu.Faults(spec))
    (error,) = caught.value.exceptions
    assert isinstance(error, emu.PEDiedError)
    assert (error.pe, error.exitcode) == (1, -7)
    usual = how_it_died(-7, 0).partition("0 bytes")[0]
    assert usual in str(error)
    assert f"the fault {spec} was to do that; it was in (innermost call first)" in str(error)
    assert "in uses_its_second_array: " in str(error)
    assert f"no memory behind allocation 2: its first use gets SIGBUS (fault {spec})" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("part", ["", "others"])
def test_nothing_happens_to_who_uses_other_memory(part: str) -> None:
    faults = emu.Faults("enospc:pe=1,nth=2")
    assert emu.launch(uses_its_second_array, 2, args=(part,), faults=faults) == ["done"] * 2


def has_a_small_array() -> int:
    world = emu.world()
    word = world.alloc(1, np.int64)
    word.local[0] = 1
    return int(word.local[0])


def test_of_a_small_array_it_is_the_page_that_cannot_be_had() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(has_a_small_array, 1, faults=emu.Faults("enospc:pe=0,nth=1"))
    assert "was killed by SIGBUS" in str(caught.value.exceptions[0])
