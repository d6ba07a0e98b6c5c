"""The launcher's side of findings: it reads what the PEs have written, without loading what compiles."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from emu.check.area import FINDINGS_BYTES, Area
from emu.check.edges import Graphs
from emu.check.reports import CheckError, Leak, Note, Race, Report, from_dictionary
from emu.comm.layout import ALLOCATIONS
from emu.comm.memory.segment import Segment
from emu.kernels.core.dtype_table import DTYPES

_OWN = "emu."
"""What names of arrays begin with that emu has allocated for itself."""

_FULL = "so much was found that later findings were left out"


class Collector:
    """Reads what the PEs of a world find, each report once: one for each pair of lines.

    Args:
        segment: The world's.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._area = Area.of(segment.layout)
        self._memory = segment.map_listeners()
        self._read = [0] * self._area.n_pes
        self._told: set[tuple[Any, ...]] = set()

    def read_new(self, *, leaks: bool) -> CheckError | None:
        """Return the error that has what was found since the last call; None: nothing.

        Args:
            leaks: Whether to look for memory that nobody freed.
        """
        graphs = Graphs(self._area, self._memory)
        found = [report for pe in range(self._area.n_pes) for report in self._new_of(pe, graphs)]
        if leaks:
            found += _leaks(self._segment)
        new: list[Report] = []
        for report in found:
            if report.pair not in self._told:
                self._told.add(report.pair)
                new.append(report)
        return CheckError(tuple(new)) if new else None

    def _new_of(self, pe: int, graphs: Graphs) -> list[Report]:
        """Return what a PE has written since the last call."""
        start = self._area.findings + pe * FINDINGS_BYTES
        size = int(self._memory[start : start + 8].view(np.int64)[0])
        text = bytes(self._memory[start + 8 + self._read[pe] : start + 8 + size]).decode()
        self._read[pe] = size
        found = [_report(json.loads(line), graphs) for line in text.splitlines()]
        if size > FINDINGS_BYTES - (64 << 10):
            found.append(Note(_FULL))
        return found


def _report(data: dict[str, Any], graphs: Graphs) -> Report:
    ends = data.pop("ends", None)
    report = from_dictionary(data)
    if ends is not None and isinstance(report, Race):
        return graphs.explain(report, ends)
    return report


def _leaks(segment: Segment) -> list[Leak]:
    leaks = []
    for entry in segment.allocations[:ALLOCATIONS]:
        if entry["used"]:
            dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"][: entry["rank"]].tolist())
            name = entry["name"].decode(errors="replace")
            if name.startswith(_OWN):
                continue
            place = entry["place"].decode(errors="replace")
            if place:
                text = f"{name or 'an array'} ({dtype}, shape {shape})"
                leaks.append(Leak(text, int(entry["nbytes"]), place, int(entry["refs"])))
    return leaks
