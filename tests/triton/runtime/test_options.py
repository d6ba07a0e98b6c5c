"""Options of a launch, and the environment's settings in their place."""

import os

import numpy as np
import pytest
from triton_kernels import copy


def test_options_are_accepted_and_do_not_compile_again():
    x, y = np.arange(4.0), np.zeros(4)
    plain = copy[(1,)](x, y, 4)
    tuned = copy[(1,)](x, y, 4, num_warps=8, num_stages=2, waves_per_eu=1, maxnreg=None)
    assert tuned.metadata.num_warps == 8
    assert plain.metadata.num_warps == 4
    assert tuned._build is plain._build


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_warps": 3}, "num_warps must be a power of 2"),
        ({"num_threads": 0}, "num_threads must be an int of at least 1"),
        ({"backend": "gpu"}, "backend must be one of"),
    ],
)
def test_bad_options_are_refused(options, message):
    y = np.zeros(4)
    with pytest.raises(ValueError, match=message):
        copy[(1,)](np.ones(4), y, 4, **options)
    assert not y.any()


def test_the_environment_says_how_many_threads(monkeypatch):
    x, y = np.arange(4.0), np.zeros(4)
    monkeypatch.setenv("EMU_THREADS", "3")
    assert copy[(1,)](x, y, 4, num_ctas=2).metadata.num_threads == 3
    assert copy[(1,)](x, y, 4, num_threads=2).metadata.num_threads == 2
    monkeypatch.setenv("EMU_THREADS", "none")
    with pytest.raises(ValueError, match="EMU_THREADS must be a whole number"):
        copy[(1,)](x, y, 4, num_ctas=4)


def test_a_pe_uses_one_thread_as_numba_does(monkeypatch):
    monkeypatch.delenv("EMU_THREADS", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    y = np.zeros(4)
    assert copy[(1,)](y, y, 4, num_stages=7).metadata.num_threads == 1
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    found = copy[(1,)](y, y, 4, num_stages=8).metadata.num_threads
    assert found == len(os.sched_getaffinity(0))
