"""Ops as events of a trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from types import CodeType
from typing import Any

from emu.comm.world import recording
from emu.comm.world.recording import Recorder
from emu.pypto.node import place_of
from emu.tile.counting.state import Counting
from emu.trace.events import Kind
from emu.trace.names import with_unnumbered

_now = time.monotonic_ns
_OP = int(Kind.OP)
_LAUNCH = int(Kind.LAUNCH)
_MOST_NAMES = 4


class _Calls:
    """Whether a kernel runs whose launch was recorded: what it does is no launch of the host."""

    is_launched = False


def begin_call(name: str) -> None:
    """Record that a kernel begins, where this process is recorded and counts: a device launches all that it does at once."""
    if recording.active is not None:
        now = _now()
        site = recording.active.here(_LAUNCH, name, {"counts": []}, key="launch")
        recording.active.write_span(site, now, now)
        _Calls.is_launched = True


def end_call() -> None:
    """Note that no kernel runs any more."""
    _Calls.is_launched = False


_places: dict[tuple[int, int], tuple[CodeType, tuple[str, int]]] = {}
"""Places by code and instruction: to work one out means to read the table of the code's lines, which may be long. A code is kept, or another could
come to have its ``id``."""


def _place_of(code: CodeType, instruction: int) -> tuple[str, int]:
    """Return file and line of an instruction, as :func:`emu.pypto.node.place_of` does."""
    found = _places.get((id(code), instruction))
    if found is None:
        found = _places[id(code), instruction] = code, place_of(code, instruction)
    return found[1]


def record_action(
    recorder: Recorder,
    label: str,
    action: Callable[[], None],
    origin: tuple[CodeType, int] | None = None,
) -> None:
    """Run what an op does, and record it.

    Args:
        recorder: What records it.
        label: Name of the op.
        action: What it does.
        origin: Code and instruction of the program that has made the op. Default: those that run now.
    """
    label = with_unnumbered(label)
    begun = _now()
    if origin is not None:
        try:
            action()
        finally:
            recorder.write(recorder.site(_OP, label, _place_of(*origin)), begun)
        return
    before = recorder.hold_line()  # what the op does is at its line
    try:
        action()
    finally:
        recorder.end(_OP, label, begun)
        recorder.release_line(before)


def record_batch(
    recorder: Recorder, compute: Callable[..., None], ops: list[Any], is_large: bool
) -> None:
    """Compute local ops, and record them as one event, at the line of the program that needs them.

    Where operators are counted its site has what they do on a device: a prediction asks for that.
    """
    names = [op[0].name for op in ops[:_MOST_NAMES]]  # before, as they are taken from the list
    label = ", ".join(names)
    if len(ops) > _MOST_NAMES:
        label += f" and {len(ops) - _MOST_NAMES} more"
    priced = _priced(ops) if Counting.operators else None
    begun = _now()
    try:
        compute(ops, is_large)
    finally:
        if priced is None:
            recorder.end(_OP, label, begun)
        else:
            ended = _now()
            key, details = priced  # other shapes on this line have a site of their own
            recorder.write_span(recorder.here(_OP, label, details, key=key), begun, ended)


def _priced(ops: list[Any]) -> tuple[Hashable, Callable[[], dict[str, Any]]]:
    from emu.pypto.priced import kernels_of  # where somebody counts; it is not needed else

    key, details = kernels_of(ops)
    if not _Calls.is_launched:
        return key, details
    return (key, "launched"), lambda: {**details(), "launches": 0}
