"""Launches of kernels as events of a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from emu.comm.world import recording
from emu.tile.counting.state import take_last
from emu.trace.events import Kind

_now = time.monotonic_ns
_LAUNCH = int(Kind.LAUNCH)


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
