"""Loading a kernel does not load SciPy, and a user's function that needs SciPy's BLAS still finds it."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numba
import numpy as np
from emu.kernels.tiles import set_tile

tile = np.zeros((4, 4), np.float32)
set_tile(tile, np.ones((4, 4), np.float32))
assert tile.all()
assert "scipy.linalg" not in sys.modules

@numba.njit
def products(a):
    return np.dot(a, a), np.linalg.inv(a)

product, inverse = products(np.eye(3) * 2)
assert product[0, 0] == 4.0 and inverse[0, 0] == 0.5
assert "scipy.linalg" in sys.modules
"""


@pytest.mark.slow
def test_scipy_is_loaded_by_what_needs_it():
    pytest.importorskip("scipy")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
