"""Comparison of 16-bit results by the criterion that operator libraries commonly use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown
from emu.mc2.arguments import Array, check_finite

TOLERANCE = 0.005
SHARE = 0.995


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison; true if it passed.

    Attributes:
        total: Number of elements compared.
        wrong: Number of elements whose error is not below the tolerance.
        largest: Largest error; infinity where one of the two is not finite.
        where: Index of the first element with the largest error, or None if none is wrong.
        passed: Whether enough elements agree.
    """

    total: int
    wrong: int
    largest: float
    where: tuple[int, ...] | None
    passed: bool

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "agrees" if self.passed else "does not agree"
        worst = "" if self.where is None else f"; the worst, {self.largest:.3g}, is at {self.where}"
        return f"{verdict}: {self.wrong} of {self.total} elements are wrong{worst}"


def compare(
    x: npt.ArrayLike, expected: npt.ArrayLike, *, tolerance: float = TOLERANCE, share: float = SHARE
) -> Comparison:
    """Compare a result with the expected one.

    With ``a = |x - e|`` the error of an element is ``a`` where that is below the tolerance, else
    ``a / max(|x|, |e|)``. Equal infinities have error 0, as have two NaNs; any other non-finite
    element is wrong.

    Args:
        x: The result, any shape, real.
        expected: The same shape.
        tolerance: Errors must be below this.
        share: Fraction of the elements for which that must hold, 0 to 1.

    Returns:
        The counts, the largest error and the verdict.

    Raises:
        ArgumentError: An argument is not of real numbers, shapes differ, or ``tolerance`` or ``share`` is
            out of bounds.
    """
    got, want = _numbers("x", x), _numbers("expected", expected)
    if got.shape != want.shape:
        raise ArgumentError(
            f"x must have shape {want.shape}, that of expected, but got {got.shape}"
        )
    tolerance, share = check_finite("tolerance", tolerance), check_finite("share", share)
    if not tolerance > 0:
        raise ArgumentError(f"tolerance must be positive, but got {tolerance}")
    if not 0 <= share <= 1:
        raise ArgumentError(f"share must be in [0, 1], but got {share}")
    with np.errstate(all="ignore"):
        away = np.abs(got - want)
        error = np.where(away < tolerance, away, away / np.maximum(np.abs(got), np.abs(want)))
    error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, error)
    error = np.where(np.isnan(error), np.inf, error)
    count = int((error >= tolerance).sum())
    where = np.unravel_index(int(np.argmax(error)), got.shape) if count else None
    return Comparison(
        got.size,
        count,
        float(error.max(initial=0.0)),
        None if where is None else tuple(int(i) for i in where),
        got.size - count >= share * got.size,
    )


def _numbers(name: str, value: object) -> Array:
    """Return real numbers as fp64."""
    try:
        array = np.asarray(value)
        # NumPy knows the kinds of its own dtypes; those of ml_dtypes are numbers too.
        known = array.dtype.kind in "biuf" or array.dtype.type.__module__ == "ml_dtypes"
        if known and not isinstance(value, np.ma.MaskedArray):
            return array.astype(np.float64)
    except Exception:  # noqa: BLE001 - NumPy raises whatever a strange object's methods raise
        array = None
    got = shown(value) if array is None or array.dtype.kind == "O" else f"dtype {array.dtype}"
    if isinstance(value, np.ma.MaskedArray):
        got = "a masked array"
    raise ArgumentError(f"{name} must be an array of real numbers, but got {got}")


def matches(
    x: npt.ArrayLike, expected: npt.ArrayLike, *, tolerance: float = TOLERANCE, share: float = SHARE
) -> bool:
    """Return whether :func:`compare` passes: by default, 99.5 % of the elements have an error below 0.005."""
    return compare(x, expected, tolerance=tolerance, share=share).passed
