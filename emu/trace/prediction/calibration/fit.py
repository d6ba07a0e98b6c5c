"""Fit a device's efficiencies and overheads to measured times.

A predicted time is a sum of eight terms, each a known number times an unknown: 1 times the latency of a launch, waves times the start of a program, operations
times that of an operation, and ideal times of products, other arithmetic, special functions, memory and cache, times what each falls short of ideal. Which of memory and
computation counts depends on the unknowns themselves: the fit is repeated until that no longer changes. Errors are relative, so that short kernels count
as much as long ones.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from emu.trace.prediction.calibration.nnls import nnls
from emu.trace.prediction.calibration.suite import Case
from emu.trace.prediction.devices.device import Device, Number
from emu.trace.prediction.devices.keys import FITTED
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import KernelTime, kernel_time

PARAMETERS = FITTED
TIMES, EFFICIENCIES = FITTED[:3], FITTED[3:]
Floats = npt.NDArray[np.float64]
_MOST_ROUNDS = 50
_LEAST_EFFICIENCY = 1e-3


@dataclass(frozen=True)
class Fit:
    """A fit.

    Attributes:
        device: The device with what was fitted.
        error: Mean absolute relative error of the cases.
        worst: Largest relative error, and the case.
        unseen: Parameters that no case depends on: they stay as they were, uncalibrated.
    """

    device: Device
    error: float
    worst: tuple[float, str]
    unseen: tuple[str, ...]


def fit(
    device: Device, cases: Sequence[Case], measured: Mapping[str, float], *, date: str, source: str
) -> Fit:
    """Fit a device to measured times.

    Args:
        device: The device, whose peak rates are kept.
        cases: The micro-kernels.
        measured: Seconds by the cases' names; those that are missing do not count.
        date: YYYY-MM-DD.
        source: What the fitted numbers say of themselves.

    Raises:
        PredictionError: Fewer cases than parameters were measured, or a time is none.
    """
    chosen = [case for case in cases if case.name in measured]
    times = [_seconds(case.name, measured[case.name]) for case in chosen]
    if len(chosen) < len(PARAMETERS):
        raise PredictionError(
            f"measured must have times of at least {len(PARAMETERS)} of the {len(cases)} micro-kernels, but has {len(chosen)}"
        )
    weights = 1.0 / np.array(times)
    values, unseen = _fitted_values(device, chosen, weights, date)
    seen = {name: value for name, value in values.items() if name not in unseen}
    fitted = _with(device, seen, date, source)
    errors = _errors(chosen, fitted, weights)
    worst = int(np.abs(errors).argmax())
    return Fit(
        fitted,
        float(np.abs(errors).mean()),
        (float(errors[worst]), chosen[worst].name),
        unseen,
    )


def _fitted_values(
    device: Device, chosen: Sequence[Case], weights: Floats, date: str
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the best values of the parameters, and those that no case depends on."""
    ideal = _with(device, dict.fromkeys(EFFICIENCIES, 1.0), date, "")
    values = {name: device[name] for name in PARAMETERS}
    tried: list[tuple[float, dict[str, float]]] = []
    regimes: set[tuple[bool, ...]] = set()
    unseen: tuple[str, ...] = ()
    for _ in range(_MOST_ROUNDS):
        current = _with(device, values, date, "")
        tried.append((float(np.abs(_errors(chosen, current, weights)).mean()), values))
        predicted = [kernel_time(case.work, current) for case in chosen]
        regime = tuple(flag for p in predicted for flag in _regime(p))
        if regime in regimes:
            break
        regimes.add(regime)
        rows = np.array(
            [_row(kernel_time(c.work, ideal), c, p) for c, p in zip(chosen, predicted, strict=True)]
        )
        unseen = tuple(n for n, column in zip(PARAMETERS, rows.T, strict=True) if not column.any())
        found = nnls(rows * weights[:, None], np.ones(len(chosen)))
        values = _values(found, rows, values)
    return min(tried, key=lambda each: each[0])[1], unseen


def _errors(chosen: Sequence[Case], device: Device, weights: Floats) -> Floats:
    """Return the relative error of each case."""
    predicted = np.array([kernel_time(case.work, device).seconds for case in chosen])
    return predicted * weights - 1.0


def _regime(time: KernelTime) -> tuple[bool, bool]:
    return time.memory >= time.compute + time.start, time.hbm >= time.l2


def _row(ideal: KernelTime, case: Case, now: KernelTime) -> list[float]:
    """Return the factors of the unknowns in a case's time."""
    row = dict.fromkeys(PARAMETERS, 0.0)
    row["launch.latency"] = 1.0
    is_memory, is_hbm = _regime(now)
    if is_memory:
        row["efficiency.hbm" if is_hbm else "efficiency.l2"] = ideal.hbm if is_hbm else ideal.l2
    else:
        row["program.start"] = float(ideal.waves)
        row["program.op"] = ideal.waves * case.work.ops
        scale = ideal.compute / sum(time for _, time in ideal.units) if ideal.units else 0.0
        for unit, time in ideal.units:
            name = f"efficiency.{unit.split()[0]}"
            if name in row:
                row[name] += time * scale
    return [row[name] for name in PARAMETERS]


def _values(found: Floats, rows: Floats, before: Mapping[str, float]) -> dict[str, float]:
    values = dict(before)
    for name, value, column in zip(PARAMETERS, found.tolist(), rows.T, strict=True):
        if not column.any():
            continue
        if name in TIMES:
            values[name] = min(1.0, value)
        else:
            values[name] = min(1.0, max(_LEAST_EFFICIENCY, 1.0 / value if value > 0 else 1.0))
    return values


def _with(device: Device, values: Mapping[str, float], date: str, source: str) -> Device:
    new = {
        name: Number(value, source or "trial", date, bool(source)) for name, value in values.items()
    }
    return replace(device, numbers={**device.numbers, **new})


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    raise PredictionError(f"measured[{name!r}] must be more than 0 seconds, but got {value!r}")
