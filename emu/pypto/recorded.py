"""Ops as events of a trace."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from emu.comm.world.recording import Recorder
from emu.trace.events import Kind

_now = time.monotonic_ns
_OP = int(Kind.OP)
_MOST_NAMES = 4
_NUMBERED = re.compile(r"\bshmem\d+")


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
    if "shmem" in label:
        label = _NUMBERED.sub(
            "shmem", label
        )  # each create has a new number: none has a site of its own
    begun = _now()
    if origin is not None:
        try:
            action()
        finally:
            recorder.write(recorder.site(_OP, label, place_of(*origin)), begun)
        return
    before = recorder.hold_line()  # what the op does is at its line
    try:
        action()
    finally:
        recorder.end(_OP, label, begun)
        recorder.release_line(before)


def record_batch(
    recorder: Recorder, compute: Callable[..., None], ops: Sequence[Any], is_large: bool
) -> None:
    """Compute local ops, and record them as one event, at the line of the program that needs them."""
    names = [op[0].name for op in ops[:_MOST_NAMES]]  # before, as they are taken from the list
    more = f" and {len(ops) - _MOST_NAMES} more" if len(ops) > _MOST_NAMES else ""
    begun = _now()
    try:
        compute(ops, is_large)
    finally:
        recorder.end(_OP, f"{', '.join(names)}{more}", begun)


@functools.lru_cache(4096)
def place_of(code: CodeType, instruction: int) -> tuple[str, int]:
    """Return file and line of an instruction."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return code.co_filename, line
