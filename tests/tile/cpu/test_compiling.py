"""Threads of Python that compile and launch kernels at once."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tile_chains import chain, expected, result
from variants import thorough

from emu.tile import cpu


@pytest.mark.parametrize(
    "same", thorough([False, True], False), ids=["different kernels", "the same kernel"]
)
def test_threads_compile_and_launch_at_once(same):
    before = sys.getrecursionlimit()
    start = threading.Barrier(4)

    def work(number):
        constant = 5 if same else number + 2
        start.wait(30)
        kernels = [cpu.compile(chain(length, constant)) for length in (700, 40, 300)]
        return [result(kernel) for kernel in kernels], constant

    with ThreadPoolExecutor(4) as pool:
        for got, constant in pool.map(work, range(4)):
            assert got == [expected(length, constant) for length in (700, 40, 300)]
    assert sys.getrecursionlimit() == before
