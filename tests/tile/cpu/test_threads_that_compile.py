"""Threads of Python that compile and launch kernels at once."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.cpu import compiling, depth
from emu.tile.ops import Code


def chain(length, constant=1):
    """A kernel that adds a number ``length`` times: what it computes depends on a chain as long."""
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    value = b.load(out)
    for n in range(length):
        code = Code.ADD if n % 2 else Code.XOR  # not to be folded into one
        value = b.binary(code, value, k.number(constant))
    b.store(out, value)
    b.return_()
    return k.module


def expected(length, constant=1):
    value = 0
    for n in range(length):
        value = value + constant if n % 2 else value ^ constant
    return value


def result(kernel):
    out = np.zeros(1, np.int32)
    address, alive = pack(kernel, [out.ctypes.data])
    kernel.launch(address)
    assert alive
    return int(out[0])


def test_compiling_leaves_the_recursion_limit_alone():
    before = sys.getrecursionlimit()
    assert result(cpu.compile(chain(3000))) == expected(3000)
    assert sys.getrecursionlimit() == before


def test_a_kernel_that_cannot_be_compiled_leaves_it_alone(monkeypatch):
    def fail(*_):
        assert sys.getrecursionlimit() >= depth.DEPTH
        raise RuntimeError("no")

    before = sys.getrecursionlimit()
    monkeypatch.setattr(compiling, "verify", fail)
    with pytest.raises(RuntimeError, match="no"):
        cpu.compile(chain(1))
    assert sys.getrecursionlimit() == before


def test_the_limit_holds_until_the_last_thread_has_compiled():
    before = sys.getrecursionlimit()
    inside, go_on = threading.Event(), threading.Event()

    def long():
        with depth.deep():
            inside.set()
            go_on.wait(30)
            return sys.getrecursionlimit()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(long)
        assert inside.wait(30)
        with depth.deep():  # begins later, ends earlier
            pass
        assert sys.getrecursionlimit() >= depth.DEPTH
        go_on.set()
        assert other.result() >= depth.DEPTH
    assert sys.getrecursionlimit() == before


def test_a_limit_that_the_program_sets_meanwhile_stays():
    before = sys.getrecursionlimit()
    try:
        with depth.deep():
            sys.setrecursionlimit(before + 77)
        assert sys.getrecursionlimit() == before + 77
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("same", [False, True], ids=["different kernels", "the same kernel"])
def test_threads_compile_and_launch_at_once(same):
    before = sys.getrecursionlimit()
    start = threading.Barrier(4)

    def work(number):
        constant = 5 if same else number + 2
        start.wait(30)
        kernels = [cpu.compile(chain(length, constant)) for length in (1200, 40, 700)]
        return [result(kernel) for kernel in kernels], constant

    with ThreadPoolExecutor(4) as pool:
        for got, constant in pool.map(work, range(4)):
            assert got == [expected(length, constant) for length in (1200, 40, 700)]
    assert sys.getrecursionlimit() == before
