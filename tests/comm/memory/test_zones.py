"""Red zones of the symmetric heap: what writes just outside of an array is reported, with its place and owner."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emu
from emu.comm.layout import Layout
from emu.comm.memory import heap as heaps
from emu.comm.memory import zones
from emu.comm.memory.segment import Segment
from emu.comm.world.world import World


def _write_outside(where: str) -> None:
    world = emu.world()
    first = world.alloc((4, 5), np.float32, name="weights")
    large = world.alloc(5000, np.float32, name="large")
    third = world.alloc(3, np.int8)
    world.barrier()
    if world.my_pe == 1:
        start = {
            "past": first.on(0).ctypes.data + 80,
            "before": large.on(1).ctypes.data - 4,
            "odd": third.on(1).ctypes.data + 3,
            "inside": first.on(0).ctypes.data + 76,
        }[where]
        ctypes.memset(start, 0x41, 4)
    world.barrier()
    if world.my_pe == 0:
        first.free()
    world.barrier()
    if world.my_pe == 1:
        first.free()  # the last one looks
    if where == "odd":
        raise RuntimeError("ends early")


REPORTS = {
    "past": r"array 'weights' \(\(4, 5\) of float32, 80 bytes, allocated at {place}:\d+\) on PE 0: "
    r"4 bytes from 0 bytes past its end hold 41 41 41 41\n",
    "before": r"array 'large' \(\(5000,\) of float32, 20000 bytes, allocated at {place}:\d+\) on PE 1: "
    r"4 bytes from 4 bytes before its beginning hold 41 41 41 41\n",
    "odd": r"array without a name \(\(3,\) of int8, 3 bytes, allocated at {place}:\d+\) on PE 1: "
    r"4 bytes from 0 bytes past its end hold 41 41 41 41\n",
}


@pytest.mark.parametrize("where", ["past", "before", "odd", "inside"])
def test_a_write_outside_is_reported_when_the_array_is_freed_or_at_the_end(
    where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if where == "odd":
        with pytest.raises(ExceptionGroup):
            emu.launch(_write_outside, 2, args=(where,))
    else:
        emu.launch(_write_outside, 2, args=(where,))
    text = capfd.readouterr().err
    if where == "inside":
        assert "emu:" not in text
        return
    pattern = "something wrote outside symmetric " + REPORTS[where]
    place = Path(__file__).name if len(__file__) < 80 else ""
    assert re.search(pattern.replace("{place}", rf"\S*{re.escape(place)}"), text), text
    assert text.count("something wrote") == 1
    assert text.startswith("[1] " if where == "past" else "emu: ")


def test_they_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EMU_RED_ZONES", "0")
    emu.launch(_write_outside, 2, args=("past",))
    assert "emu:" not in capfd.readouterr().err


def _fill_heap() -> tuple[int, str]:
    world = emu.world()
    total = 1 << 16
    arrays = [world.alloc(4096, np.uint8) for _ in range(8)]
    arrays += [world.alloc(64, np.uint8) for _ in range((total - 8 * 4096) // 64)]
    try:
        world.alloc(1, np.uint8)
    except emu.SymmetricMemoryError as error:
        text = str(error)
    for array in arrays:
        assert not array.local.any()
        array.local[...] = 1
    assert world.alloc(0, np.uint8).nbytes == 0
    for array in arrays:
        array.free()
    whole = world.alloc(total, np.uint8)
    assert not whole.local.any()
    return len(arrays), text


def test_all_of_the_heap_is_the_programs(capfd: pytest.CaptureFixture[str]) -> None:
    ((count, text),) = emu.launch(_fill_heap, 1, heap_size=1 << 16)
    assert count == 520
    assert f"65536 of them are taken by {count} arrays" in text
    assert ", 0 are free" in text
    assert capfd.readouterr().err == ""


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.one_of(st.integers(0, 300), st.integers(4000, 9000)), st.integers(0, 2)),
        max_size=40,
    )
)
def test_zones_never_overlap_arrays(
    zoned: Callable[[], World],
    capfd: pytest.CaptureFixture[str],
    plan: list[tuple[int, int]],
) -> None:
    world = zoned()
    live: list[emu.SymmetricArray] = []
    for number, (size, drop) in enumerate(plan):
        try:
            array = world.alloc(size, np.uint8)
        except emu.SymmetricMemoryError:
            continue
        assert array.local.ctypes.data % (4096 if size >= 4096 else 64) == 0
        assert not array.local.any()
        array.local[...] = number % 255 + 1
        live.append(array)
        if drop == 0:
            live.pop(number % len(live)).free()
    zones.report_all(world.segment)
    for one in live:
        assert np.unique(one.local).size <= 1
        one.free()
    world.alloc(1, np.uint8).free()
    assert capfd.readouterr().err == ""
    assert len(world.heap._table.gaps()) == 1


@pytest.fixture
def zoned() -> Callable[[], World]:
    def make() -> World:
        segment = Segment.create(Layout(n_pes=1, heap_bytes=1 << 16, zones=True))
        return World(segment, heaps.register(segment, 0, 1), 0, poison=False)

    return make


def test_a_launcher_needs_no_numba_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import emu.comm.memory.zones, sys; print('numba' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
