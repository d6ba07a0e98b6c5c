"""Launches of kernels as events of a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from emu.comm.world import recording
from emu.tile.counting.state import Counting, Sink, take_last
from emu.trace.events import Kind

_now = time.monotonic_ns
_LAUNCH, _TUNE = int(Kind.LAUNCH), int(Kind.TUNE)


class Measurement:
    """Launches by which an autotuner measures a kernel in one configuration: no events, and not counted for those who listen.

    The first of them is counted all the same, where launches are: an event of the whole has what a prediction of the configuration needs.

    Args:
        name: Name of the kernel.
        settings: The configuration: names and values.
    """

    current: Measurement | None = None

    def __init__(self, name: str, settings: Mapping[str, object]) -> None:
        self._name, self._settings = name, dict(settings)
        self._launch: dict[str, Any] | None = None
        self._sink: Sink | None = None
        self._outer: Measurement | None = None
        self._begun = 0

    def __enter__(self) -> None:
        self._sink, Counting.sink = Counting.sink, None
        self._outer, Measurement.current = Measurement.current, self
        self._begun = _now()

    def __exit__(self, *_: object) -> None:
        Counting.sink, Measurement.current = self._sink, self._outer

    def launch(
        self, launch: Callable[..., None], grid: tuple[int, int, int], said: dict[str, Any]
    ) -> None:
        """Run a launch, and count it if it is the first; ``said``: what the event says of it."""
        if self._launch is not None or self._sink is None:
            self._launch = self._launch or {"grid": list(grid), **said}
            launch()
            return
        Counting.sink = _nobody
        try:
            launch()
        finally:
            Counting.sink = None
        counts = take_last()
        self._launch = {"grid": list(grid), **said}
        if counts is not None:
            self._launch["counts"] = counts.to_json()

    def write(self, times: list[float]) -> None:
        """Write the event, which ends now; ``times`` in milliseconds, the median first."""
        self._write(self._settings, {}, self._begun, times)

    def write_again(self, settings: Mapping[str, object], said: Mapping[str, int]) -> None:
        """Write an event without length of another configuration, which has the same code here and was not measured.

        Args:
            settings: That configuration.
            said: What differs of a launch: its number of warps.
        """
        self._write(dict(settings), said, _now(), [])

    def _write(
        self, settings: dict[str, object], said: Mapping[str, int], begun: int, times: list[float]
    ) -> None:
        recorder = recording.active
        if recorder is None or self._launch is None:
            return
        details = {**self._launch, **said, "configuration": settings}
        if times:
            details["measured_s"] = times[0] * 1e-3
        key = json.dumps(details, default=str)
        recorder.write_span(recorder.here(_TUNE, self._name, details, key=key), begun, _now())


def _nobody(_: object) -> None:
    """Hear of counts, and do nothing."""


def recorded(
    name: str, launch: Callable[..., None], options: Mapping[str, int] | None = None
) -> Callable[..., None]:
    """Return a function that launches a kernel and records it, where this process is recorded; else ``launch``.

    Args:
        name: Name of the kernel.
        launch: Takes the three extents of the grid first.
        options: What the event of a launch that is counted says beside the counts: its number of warps, which decides how many
            programs a device holds.
    """
    recorder = recording.active
    if recorder is None:
        return launch
    said = dict(options or {})
    here, write, write_span = recorder.here, recorder.write, recorder.write_span

    def launch_and_record(x: int, y: int, z: int, *rest: Any) -> None:
        if Measurement.current is not None:
            Measurement.current.launch(lambda: launch(x, y, z, *rest), (x, y, z), said)
            return
        begun = _now()
        try:
            launch(x, y, z, *rest)
        finally:
            counts = take_last()
            if counts is None:
                write(here(_LAUNCH, name, {"grid": [x, y, z]}, key=(x, y, z)), begun)
            else:
                ended = _now()
                details = {"grid": [x, y, z], **said, "counts": counts.to_json()}
                write_span(here(_LAUNCH, name, details, key=json.dumps(details)), begun, ended)

    return launch_and_record
