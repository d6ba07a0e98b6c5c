"""Kernels that are launched in one step."""

from __future__ import annotations

import numpy as np
import pytest
from tile_counting import counting

from emu.tile.cpu.run import pool


@pytest.fixture(autouse=True)
def _every_launch_is_worth_threads(monkeypatch):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("worth_ns", [0, 10**18])
def test_what_bind_gives_runs_every_program_once(threads, worth_ns, monkeypatch):
    monkeypatch.setattr(pool, "WORTH_THREADS_NS", worth_ns)
    run = counting().bind(threads)
    for _ in range(5):
        out = np.zeros(37 * 3, np.int32)
        run(37, 3, 1, [out.ctypes.data])
        assert (out == 1).all()


def test_bind_refuses_arguments_beyond_its_memory():
    kernel = counting()
    kernel.format = "q" * 8193
    with pytest.raises(ValueError, match=r"at most 65536 bytes, but those of .* take 65544"):
        kernel.bind(1)
