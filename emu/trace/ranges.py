"""What a program adds to its trace: ranges, instants and counters. Where nothing is recorded they do nothing."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from emu.comm.world import recording
from emu.trace.errors import TraceError
from emu.trace.events import Kind

_now = time.monotonic_ns
_RANGE, _COUNTER, _INSTANT = int(Kind.RANGE), int(Kind.COUNTER), int(Kind.INSTANT)
_MOST = (1 << 63) - 1


class range:
    """A stretch of the program that a trace shows by name; a context manager.

    Args:
        name: Its name.

    Raises:
        TraceError: The name is no string.
    """

    __slots__ = ("_begun", "_site", "name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TraceError(f"name must be a string, but got {name!r:.80}")
        self.name = name
        self._begun: list[int] = []

    def __enter__(self) -> None:
        recorder = recording.active
        if recorder is not None:
            self._site = recorder.here(_RANGE, self.name)
            self._begun.append(_now())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder = recording.active
        if recorder is not None and self._begun:
            recorder.write(self._site, self._begun.pop())


def instant(name: str, text: str = "") -> None:
    """Add a moment to the trace.

    Args:
        name: What happened.
        text: What else is to be said. Default: nothing.

    Raises:
        TraceError: An argument is no string.
    """
    for argument, value in (("name", name), ("text", text)):
        if not isinstance(value, str):
            raise TraceError(f"{argument} must be a string, but got {value!r:.80}")
    recorder = recording.active
    if recorder is not None:
        site = recorder.here(_INSTANT, name, {"text": text} if text else None, key=text)
        now = _now()
        recorder.write_span(site, now, now)


def counter(name: str, value: int, unit: str = "") -> None:
    """Say how large something is from now on.

    Args:
        name: What is counted.
        value: How many there are: an integer of at most 64 bits.
        unit: Of what. Default: nothing.

    Raises:
        TraceError: An argument is of another type, or the value is out of bounds.
    """
    for argument, given in (("name", name), ("unit", unit)):
        if not isinstance(given, str):
            raise TraceError(f"{argument} must be a string, but got {given!r:.80}")
    number: Any = value
    try:
        number = number.__index__()
    except (AttributeError, TypeError):
        number = None
    if number is None or not -_MOST - 1 <= number <= _MOST:
        raise TraceError(f"value must be an integer of at most 64 bits, but got {value!r:.80}")
    recorder = recording.active
    if recorder is not None:
        site = recorder.site(_COUNTER, name, details={"unit": unit} if unit else None, key=unit)
        now = _now()
        recorder.write_span(site, now, now, number)
