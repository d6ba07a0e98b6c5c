"""Details that a waiting PE publishes beyond the words it waits for.

A layer above knows more than addresses: which op waits, what is held up behind it. It registers a
provider of lines, which is called when a wait has lasted a slice, and then a few times per second.
The lines stand under the PE in the launcher's report.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from emu.comm.layout import TEXT_BYTES

Description = dict[str, Any]
"""What a PE waits for, as it is published in JSON: ``call``, and what else a report should show."""

AGAIN_S = 0.25
"""Seconds after which a wait that goes on is described again: later events may be the clue."""
MAX_LINE = 320

_providers: list[tuple[int, Callable[[], list[str]]]] = []


def add_provider(provider: Callable[[], list[str]]) -> None:
    """Add ``provider``'s lines to the descriptions of waits of the calling thread."""
    _providers.append((threading.get_ident(), provider))


def has_provider() -> bool:
    """Return whether there are lines beyond the words of a wait."""
    return bool(_providers)


def publishable(description: Description) -> str:
    """Return a description as JSON that fits the room for it, with the providers' lines.

    Whatever does not fit is cut from the end: lines first, then slots, then the texts.
    """
    description = dict(description)
    lines = [_shorten(line) for line in _collect()]
    if lines:
        description["details"] = lines
    text = json.dumps(description)
    while len(text) > TEXT_BYTES and lines:
        lines.pop()
        text = json.dumps(description)
    slots = description.get("slots", [])
    while len(text) > TEXT_BYTES and slots:
        slots.pop()
        description["more"] = description.get("more", 0) + 1
        text = json.dumps(description)
    for name, least in (("text", 1), ("call", MAX_LINE)):
        while len(text) > TEXT_BYTES and len(description.get(name, "")) > least:
            description[name] = description[name][: len(description[name]) * 3 // 4]
            text = json.dumps(description)
    return text


def _collect() -> list[str]:
    me = threading.get_ident()
    lines: list[str] = []
    for thread, provider in _providers:
        if thread == me:
            try:
                lines += provider()
            except Exception as error:  # noqa: BLE001 - a report must not become the failure
                lines.append(f"(more could not be said: {type(error).__name__}: {error})")
    return lines


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
