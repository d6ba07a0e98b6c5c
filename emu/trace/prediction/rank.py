"""The order of configurations: that which a model predicts, and how far it agrees with a measured one.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emu.trace.events import Kind, Site
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
        settings: What an autotuner calls it: names and values; empty: it was not autotuned.
        work: Its work.
        time: Its predicted time.
        launches: How often it was launched, by the program or an autotuner.
        recorded: Its time on this machine, in seconds: that which an autotuner has measured, else the mean of launches; NaN: it was not measured.
    """

    place: int
    settings: Mapping[str, object]
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
    found: dict[tuple[object, ...], _Configuration] = {}
    for table, events in zip(trace.sites, trace.events, strict=True):
        launches = events[np.isin(events["kind"], (Kind.LAUNCH, Kind.TUNE))]
        for number in sorted(set(launches["site"].tolist())):
            site = table[number]
            is_named = site.name == kernel and not is_launch_alone(site)
            work = work_of_site(site) if is_named else None
            if work is None:
                continue
            durations = launches["duration"][launches["site"] == number].tolist()
            found.setdefault(_key(work), _Configuration(work)).add(site, durations)
    if not found:
        counted = [site for site in launch_sites(trace) if work_of_site(site) is not None]
        names = ", ".join(sorted({site.name for site in counted})) or "there is none"
        raise PredictionError(f"kernel must be one that was counted ({names}), but got {kernel!r}")
    ranked = [
        each.ranked(place, settings, device)
        for place, (each, settings) in enumerate(
            (each, settings) for each in found.values() for settings in each.settings or [{}]
        )
    ]
    return sorted(ranked, key=lambda each: (each.time.seconds, each.place))


@dataclass
class _Configuration:
    """What launches with the same work have said.

    Attributes:
        work: The work.
        settings: What autotuners call it.
        durations: Of the program's launches, in nanoseconds.
        measured: What autotuners have measured, in seconds.
        launches: How often it was launched.
    """

    work: Work
    settings: list[dict[str, object]] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    launches: int = 0

    def add(self, site: Site, durations: list[int]) -> None:
        """Add the events of a site."""
        details = site.details or {}
        settings, measured = details.get("configuration"), details.get("measured_s")
        self.launches += len(durations)
        if settings is None:
            self.durations += durations
            return
        if not isinstance(settings, dict):
            raise PredictionError(
                f"a configuration of {site.name!r} must be names and values, but got {settings!r:.80}"
            )
        if settings not in self.settings:
            self.settings.append(settings)
        if measured is not None:
            self.measured.append(*_numbers("measured_s", [measured]))

    def ranked(self, place: int, settings: Mapping[str, object], device: Device) -> Ranked:
        """Return it as a row."""
        times = self.measured or [ns * 1e-9 for ns in self.durations]
        recorded = sum(times) / len(times) if times else math.nan
        time = kernel_time(self.work, device)
        return Ranked(place, settings, self.work, time, self.launches, recorded)


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
