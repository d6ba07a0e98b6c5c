"""Interpreted kernels that wait for what never comes end, and say where they waited and for what."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton
from emu.tile.cpu.run import watching


@triton.jit(interpret=True)
def wait_for(flag_ptr, place, value):
    while tl.load(flag_ptr + place, volatile=True) < value:
        pass


@triton.jit(interpret=True)
def wait_for_any(flag_ptr, BLOCK: tl.constexpr):
    found = tl.load(flag_ptr)
    while found == 0:
        found = tl.sum(tl.load(flag_ptr + tl.arange(0, BLOCK), volatile=True))


@triton.jit(interpret=True)
def count_to(n):
    i = 0
    while i < n:
        i += 1


@triton.jit(interpret=True)
def lock(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 2:
        while tl.load(lock_ptr) == 2:
            pass


def line_of(kernel: Any, text: str) -> str:
    lines, first = kernel.src.splitlines(), kernel.fn.__code__.co_firstlineno
    at = next(n for n, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + 1 + at}:"


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Interrupts the process as soon as a loop has been reported twice."""
    reports: list[Any] = []

    def publish(spins: list[Any]) -> None:
        reports.append(spins)
        if len(reports) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(watching, "publish", publish)
    return reports


def test_an_interrupt_says_where_the_kernel_waited_and_for_what(interrupted: Any) -> None:
    flags = np.zeros(8, np.int32)
    with pytest.raises(KeyboardInterrupt) as caught:
        wait_for[(2,)](flags, 3, 1)
    said = str(caught.value)
    assert said.startswith("in kernel wait_for (")
    assert "program (0, 0, 0) of (2, 1, 1)" in said
    assert f"in the loop at {line_of(wait_for, 'while')}5; it waits for flag_ptr[3] (i32 at" in said
    assert f"read at {line_of(wait_for, 'while')}11 (there: 0)" in said
    first, second, end = interrupted
    assert not first[0].same
    assert second[0].same
    assert second[0].since == first[0].since
    assert end == []


def test_what_is_computed_from_a_tile_has_no_address(interrupted: Any) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"it waits for what is read at .* \(now 0\)"):
        wait_for_any[(1,)](np.zeros(8, np.int32), BLOCK=8)


def test_a_loop_that_computes_waits_for_nothing(interrupted: Any) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        count_to[(1,)](1 << 40)
    assert f"in the loop at {line_of(count_to, 'while')}5" in str(caught.value)
    assert "waits" not in str(caught.value)
    assert not any(spin.same for spins in interrupted for spin in spins)


def test_of_nested_loops_the_inner_one_is_reported(interrupted: Any) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        lock[(1,)](np.full(1, 2, np.int32))
    assert f"in the loop at {line_of(lock, 'tl.load')}9; it waits for lock_ptr[0]" in str(
        caught.value
    )


def test_a_loop_that_ends_is_no_longer_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Any] = []
    monkeypatch.setattr(watching, "publish", reports.append)
    flags = np.zeros(4, np.int32)

    def set_flag() -> None:
        while not reports:
            time.sleep(0.01)
        flags[2] = 1

    setter = threading.Thread(target=set_flag)
    setter.start()
    wait_for[(1,)](flags, 2, 1)
    setter.join()
    assert reports[-1] == []
    wait_for[(1,)](flags, 2, 1)  # does not wait at all
    assert reports.count([]) == 1


def _spin(name: str) -> None:
    world = emu.world()
    flags = world.alloc((8,), np.int32, name=name)
    world.barrier()
    if world.my_pe == 1:
        wait_for[(1,)](flags.local, 5, 1)
    world.barrier()


def test_a_kernel_that_spins_is_a_wait_of_its_pe() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(_spin, 2, args=("flags",), timeout=3)
    report = str(caught.value)
    assert "PE 0 waits in barrier of group 'world'" in report
    assert "PE 1 waits in kernel wait_for" in report
    assert f"in the loop at {line_of(wait_for, 'while')}5 for flag_ptr[5] (i32 at 0x" in report
    assert "(there: 0)" in report
    assert all(isinstance(error, emu.DeadlockError) for error in caught.value.exceptions)


def _fail_beside_a_spin() -> None:
    world = emu.world()
    flags = world.alloc((8,), np.int32)
    world.barrier()
    if world.my_pe == 1:
        wait_for[(1,)](flags.local, 0, 1)
    raise ValueError("PE 0 gives up")


def test_a_kernel_that_spins_ends_when_another_pe_fails() -> None:
    with pytest.raises(ExceptionGroup, match="PE 0") as caught:
        emu.launch(_fail_beside_a_spin, 2, timeout=100)
    (error,) = caught.value.exceptions
    assert "PE 0 gives up" in str(error)
