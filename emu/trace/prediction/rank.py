"""The order of configurations: that which a model predicts, and how far it agrees with a measured one.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emu.trace.events import Kind
from emu.trace.prediction.counts import work_of_site
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import KernelTime, kernel_time
from emu.trace.prediction.pricing import is_launch_alone, launch_sites
from emu.trace.prediction.work import Work
from emu.trace.reading import Trace


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-b of two lists of times: 1 for the same order, -1 for the opposite one, 0 for no relation.

    Pairs that are equal in one list count for neither order. Where all of a list is equal there is no order: NaN.

    Args:
        first: Times of configurations.
        second: Other times of the same configurations, in the same places.

    Raises:
        PredictionError: The lists are not equally long, shorter than 2, or hold what is no number.
    """
    values = [
        [float(x) for x in _numbers(name, given)]
        for name, given in (("first", first), ("second", second))
    ]
    if len(values[0]) != len(values[1]) or len(values[0]) < 2:
        raise PredictionError(
            f"first and second must have the same number of at least 2 times, but got {len(values[0])} and {len(values[1])}"
        )
    agreed = only_first = only_second = 0
    x, y = values
    for i in range(len(x)):
        for j in range(i):
            a, b = _sign(x[i] - x[j]), _sign(y[i] - y[j])
            agreed += a * b
            only_first += a != 0
            only_second += b != 0
    if not only_first or not only_second:
        return math.nan
    return agreed / math.sqrt(only_first * only_second)


@dataclass(frozen=True)
class Ranked:
    """A configuration in the predicted order.

    Attributes:
        place: Number in the order of the trace.
        work: Its work.
        time: Its predicted time.
        launches: How often it was launched.
        recorded: Mean time on this machine, in seconds.
    """

    place: int
    work: Work
    time: KernelTime
    launches: int
    recorded: float


def rank(trace: Trace, kernel: str, device: Device) -> list[Ranked]:
    """Return the configurations with which a kernel was launched, the fastest first.

    Each grid and each other count is a configuration. Autotuning launches all of them: record it with ``--autotune full``.

    Raises:
        PredictionError: The trace has no launch of that name with counts.
    """
    found: dict[tuple[object, ...], tuple[Work, list[int]]] = {}
    for table, events in zip(trace.sites, trace.events, strict=True):
        launches = events[events["kind"] == Kind.LAUNCH]
        for number in sorted(set(launches["site"].tolist())):
            site = table[number]
            is_named = site.name == kernel and not is_launch_alone(site)
            work = work_of_site(site) if is_named else None
            if work is None:
                continue
            _, durations = found.setdefault(_key(work), (work, []))
            durations += launches["duration"][launches["site"] == number].tolist()
    if not found:
        counted = [site for site in launch_sites(trace) if work_of_site(site) is not None]
        names = ", ".join(sorted({site.name for site in counted})) or "there is none"
        raise PredictionError(f"kernel must be one that was counted ({names}), but got {kernel!r}")
    ranked = [
        Ranked(
            place,
            work,
            kernel_time(work, device),
            len(durations),
            sum(durations) / len(durations) * 1e-9,
        )
        for place, (work, durations) in enumerate(found.values())
    ]
    return sorted(ranked, key=lambda each: (each.time.seconds, each.place))


def _key(work: Work) -> tuple[object, ...]:
    tables = (tuple(sorted(work.dot.items())), tuple(sorted(work.vector.items())))
    return (work.programs, *tables, work.special, work.atomics, work.tensors, work.ops, work.warps)


def _numbers(name: str, given: object) -> Sequence[float]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise PredictionError(f"{name} must be a sequence of times, but got {given!r:.80}")
    for value in given:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise PredictionError(f"{name} must have finite numbers, but got {value!r:.80}")
    return given


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
