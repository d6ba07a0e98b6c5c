"""What each event of a trace takes on a device.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.trace.events import Kind, Site
from emu.trace.prediction.counts import work_of_site
from emu.trace.prediction.dependencies import Event
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import KernelTime, kernel_time
from emu.trace.prediction.links import (
    CollectiveTime,
    Message,
    barrier_time,
    collective_time,
    message,
    nanoseconds,
)
from emu.trace.prediction.operators import operator_time
from emu.trace.prediction.work import Work
from emu.trace.reading import Trace


@dataclass(frozen=True)
class Options:
    """How a trace is predicted.

    Attributes:
        host: Factor of what the host did between events; 0: nothing is left of it, since the host of a device runs ahead of it. Default: 0.
        uncounted: Factor of the recorded time of kernels and operations without counts. Default: that of the counted kernels
            of the trace together; without any, 1.
        programs: Kernels whose work is divided among another number of programs, by name.
    """

    host: float = 0.0
    uncounted: float | None = None
    programs: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        for name in ("host", "uncounted"):
            value = getattr(self, name)
            if name == "uncounted" and value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= 1e6
            ):
                raise PredictionError(f"{name} must be a number in [0, 1e6], but got {value!r}")
        for kernel, count in (self.programs or {}).items():
            if type(count) is not int or not 1 <= count <= 1 << 40:
                raise PredictionError(
                    f"programs of {kernel!r} must be in [1, {1 << 40}], but got {count!r}"
                )


COMPUTES = (Kind.LAUNCH, Kind.OP)
"""Kinds of events that compute."""

COUNTED = (*COMPUTES, Kind.TURN)
"""Kinds of events that may have counts: of turns those of products."""

MOST_LAUNCHES = 1 << 20
"""Launches of an event; more are none."""

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")


class _Columns:
    """Events of a PE as lists, which are faster to read one by one."""

    def __init__(self, events: npt.NDArray[Any]) -> None:
        self.kind: list[int] = events["kind"].tolist()
        self.site: list[int] = events["site"].tolist()
        self.size: list[int] = events["size"].tolist()


class Pricer:
    """Prices the events of a trace; what :func:`emu.trace.prediction.replay.replay` asks.

    Args:
        trace: The trace.
        device: The device of each PE.
        options: How.

    Attributes:
        device: The device.
        factor: Factor of what has no counts.
        factor_source: Where that is from, in words.
    """

    def __init__(self, trace: Trace, device: Device, options: Options) -> None:
        self._trace, self.device, self._options = trace, device, options
        self.launch_latency = nanoseconds(device["launch.latency"])
        self.launch_issue = nanoseconds(device["launch.issue"])
        self._kernels: dict[tuple[int, int], KernelTime | None] = {}
        self._works: dict[tuple[int, int], Work | None] = {}
        self._columns = [_Columns(events) for events in trace.events]
        self._executions: dict[tuple[int, int], int | None] = {}
        self._launches: dict[tuple[int, int], int | None] = {}
        self._meetings: dict[tuple[int, int, int, int], int] = {}
        self._messages: dict[int, Message] = {}
        self._copy_rate = device["hbm"] * device["efficiency.hbm"] / 2  # read and written
        self._check_programs()
        self.factor, self.factor_source = self._factor()

    def kernel(self, pe: int, site: int) -> KernelTime | None:
        """Return the predicted time of a launch of a site; None: it has no counts."""
        if (pe, site) not in self._kernels:
            work = self.work(pe, site)
            self._kernels[pe, site] = None if work is None else _time_of(work, self.device)
        return self._kernels[pe, site]

    def work(self, pe: int, site: int) -> Work | None:
        """Return what a launch of a site computes and moves; None: it was not counted."""
        if (pe, site) not in self._works:
            found = self._trace.sites[pe][site]
            work = work_of_site(found)
            count = (self._options.programs or {}).get(found.name)
            self._works[pe, site] = work.divided(count) if work is not None and count else work
        return self._works[pe, site]

    # ---- what the replay asks

    def host(self, ns: int) -> int:
        """Return how long a recorded gap takes."""
        return round(ns * self._options.host)

    def compute(self, event: Event, recorded: int) -> int:
        """Return how long a kernel, an operation or a turn computes, which took so long here."""
        pe, index = event
        columns = self._columns[pe]
        if columns.kind[index] in COUNTED:
            site = columns.site[index]
            found = self._executions.get((pe, site), -1)
            if found == -1:
                kernel = self.kernel(pe, site)
                found = None if kernel is None else nanoseconds(kernel.execution)
                self._executions[pe, site] = found
            if found is not None:
                return found
        return round(recorded * self.factor)

    def launches(self, event: Event) -> int | None:
        """Return how many kernels the host launches for an event; None: it does it itself, or waits for it."""
        pe, index = event
        columns = self._columns[pe]
        kind, site = columns.kind[index], columns.site[index]
        if kind == Kind.LAUNCH:
            return 1
        if kind != Kind.OP:
            return None
        if (pe, site) not in self._launches:
            self._launches[pe, site] = self._launches_of(pe, site)
        return self._launches[pe, site]

    def _launches_of(self, pe: int, site: int) -> int | None:
        work = self.work(pe, site)
        if work is None:
            return None
        said = (self._trace.sites[pe][site].details or {}).get("launches")
        return said if type(said) is int and 0 <= said <= MOST_LAUNCHES else work.launches

    def message(self, nbytes: int) -> Message:
        """Return what a message occupies."""
        found = self._messages.get(nbytes)
        if found is None:
            found = self._messages[nbytes] = message(max(0, nbytes), self.device)
        return found

    def copy(self, nbytes: int) -> int:
        """Return how long a copy within a device takes."""
        return nanoseconds(max(0, nbytes) / self._copy_rate)

    def meeting(self, event: Event, members: int) -> int:
        """Return how long a barrier, a collective or a turn takes once all members have come."""
        pe, index = event
        columns = self._columns[pe]
        is_turn = columns.kind[index] == Kind.TURN
        if columns.kind[index] == Kind.BARRIER or (is_turn and not columns.size[index]):
            return nanoseconds(barrier_time(members, self.device))
        key = (pe, columns.site[index], columns.size[index], members)
        if key not in self._meetings:
            self._meetings[key] = nanoseconds(self.collective(event, members).seconds)
        return self._meetings[key]

    def collective(self, event: Event, members: int) -> CollectiveTime:
        """Return how a collective is carried out."""
        pe, index = event
        columns = self._columns[pe]
        kind = _collective(self._trace.sites[pe][columns.site[index]].name)
        size = max(0, columns.size[index])
        if "gather" in kind:  # a member's part was recorded
            size *= members
        return collective_time(kind, size, members, self.device)

    # ---- kernels without counts

    def _factor(self) -> tuple[float, str]:
        if self._options.uncounted is not None:
            return self._options.uncounted, "given"
        predicted = recorded = 0.0
        for pe, events in enumerate(self._trace.events):
            launches = events[np.isin(events["kind"], COUNTED)]
            for site in set(launches["site"].tolist()):
                kernel = self.kernel(pe, site)
                if kernel is not None and kernel.execution:
                    of_site = launches["duration"][launches["site"] == site]
                    predicted += kernel.execution * 1e9 * len(of_site)
                    recorded += float(of_site.sum())
        if recorded <= 0 or not math.isfinite(predicted):
            return 1.0, "no kernel has counts: as recorded"
        return predicted / recorded, "that of the counted kernels of this trace"

    def _check_programs(self) -> None:
        for name in self._options.programs or {}:
            known = {s.name for s in launch_sites(self._trace)}
            if name not in known:
                raise PredictionError(
                    f"programs must name a kernel of the trace ({', '.join(sorted(known)) or 'there is none'}), but got {name!r}"
                )


def _time_of(work: Work, device: Device) -> KernelTime:
    if work.kernels or work.parts is not None:
        return operator_time(work, device)
    return kernel_time(work, device)


def _collective(name: str) -> str:
    """Return the kind of a collective by any of its names: ``ReduceScatter``, ``reduce_scatter``."""
    short = name.lower().replace("_", "").replace(" ", "")
    return next((kind for kind in _COLLECTIVES if kind.replace("_", "") in short), name)


def launch_sites(trace: Trace) -> list[Site]:
    """Return the sites of launches, but for those that do nothing by themselves."""
    return [
        table[site]
        for table, events in zip(trace.sites, trace.events, strict=True)
        for site in sorted(set(events["site"][events["kind"] == Kind.LAUNCH].tolist()))
        if not is_launch_alone(table[site])
    ]


def is_launch_alone(site: Site) -> bool:
    """Return whether an event of a site takes no time on a device: what follows does all that was launched."""
    return (site.details or {}).get("counts") == []
