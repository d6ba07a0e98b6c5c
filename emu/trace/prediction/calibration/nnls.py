"""Non-negative least squares by the active-set method of Lawson and Hanson.

Internal: names may change in any release.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def nnls(a: Matrix, b: Matrix) -> Matrix:
    """Return the x, none of it negative, for which ``|a @ x - b|`` is least.

    Args:
        a: Rows of equations, [m, n].
        b: Their right sides, [m].
    """
    n = a.shape[1]
    x = np.zeros(n)
    free = np.zeros(n, np.bool_)
    tolerance = (
        1e-12
        * max(1.0, float(np.abs(a).max(initial=0.0)))
        * max(1.0, float(np.abs(b).max(initial=0.0)))
    )
    for _ in range(3 * n + 10):
        gradient = a.T @ (b - a @ x)
        gradient[free] = -np.inf
        best = int(gradient.argmax()) if n else 0
        if n == 0 or gradient[best] <= tolerance:
            break
        free[best] = True
        x = _inner(a, b, x, free)
    return x


def _inner(a: Matrix, b: Matrix, x: Matrix, free: npt.NDArray[np.bool_]) -> Matrix:
    """Solve for the free variables; those that would become negative are bound again."""
    while True:
        trial = np.zeros_like(x)
        trial[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
        negative = free & (trial <= 0)
        if not negative.any():
            return trial
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = x[negative] / (x[negative] - trial[negative])
        step = float(np.nan_to_num(steps, nan=0.0).min())
        x = x + step * (trial - x)
        free &= x > 1e-15
        if not free.any():
            return np.zeros_like(x)
