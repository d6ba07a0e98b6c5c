"""SciPy's BLAS is looked for when a function that multiplies matrices is compiled, and not before.

When it loads its first compiled function, Numba imports ``scipy.linalg``, just to see whether it is there: a third
of the time to the first kernel where SciPy is installed, for what no kernel here uses. Numba imports it again, and
checks it, when it compiles or calls ``numpy.dot``: a user's functions work as without this module.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
from typing import Any


@functools.cache
def look_for_blas_later() -> None:
    """Load the module of Numba that imports SciPy without that import; do nothing if it was loaded before."""
    if "numba.np.arraymath" in sys.modules:
        return
    # Where Numba has other names, it is as slow as it is without this.
    with contextlib.suppress(ImportError, AttributeError):
        linalg: Any = importlib.import_module("numba.np.linalg")
        before = linalg.ensure_blas
        linalg.ensure_blas = _is_installed
        try:
            arraymath: Any = importlib.import_module("numba.np.arraymath")
            arraymath.ensure_blas = before
        finally:
            linalg.ensure_blas = before


def _is_installed() -> None:
    if importlib.util.find_spec("scipy") is None:  # loads nothing of it
        raise ImportError("scipy is not installed")
