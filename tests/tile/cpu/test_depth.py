"""The recursion limit and the garbage collector while threads compile."""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tile_chains import chain, expected, result

from emu.tile import cpu
from emu.tile.cpu import compiling, depth


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


def test_garbage_is_seldom_collected_meanwhile():
    before = gc.get_threshold()
    with depth.deep():
        assert gc.get_threshold()[0] >= depth.OBJECTS
    assert gc.get_threshold() == before


def test_a_program_that_collects_none_or_says_how_meanwhile_is_left_alone():
    before = gc.get_threshold()
    try:
        gc.set_threshold(0)
        with depth.deep():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
        gc.set_threshold(*before)
        with depth.deep():
            gc.set_threshold(123)
        assert gc.get_threshold()[0] == 123
    finally:
        gc.set_threshold(*before)
