"""Numbers of threads, in processes of their own: Numba starts its threads once and for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, numba
from emu.kernels.core import threads

@numba.njit(parallel=True)
def work(a):
    for i in numba.prange(a.size):
        a[i] += 1

before = [threads.default_threads(), threads.usable_threads(1), threads.usable_threads(3)]
import numpy as np
work(np.zeros(100))
after = [threads.default_threads(), threads.usable_threads(2), threads.usable_threads(50)]
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps([threads.default_threads(), threads.usable_threads(2)]).encode())
    os._exit(0)
os.wait()
print(json.dumps([before, after, json.loads(os.read(read, 100))]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_can_be_asked_for_until_they_start_and_a_fork_has_none():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={
            **os.environ,
            "NUMBA_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    before, after, forked = json.loads(done.stdout)
    assert before == [1, 1, 3]
    assert after[1:] == [2, 3]  # those that were started
    assert forked == [1, 1]
