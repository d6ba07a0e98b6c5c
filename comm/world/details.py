"""Details that a waiting PE publishes beyond the words it waits for.

A layer above knows more than addresses: which op waits, what is held up behind it. It registers a
provider of lines, which is called when a wait has lasted a slice, and then a few times per second.
The lines stand under the PE in the launcher's report.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from emu.comm.layout import PLACE_BYTES, TEXT_BYTES
from emu.kernels.core.own_files import OWN_FOLDERS

Description = dict[str, Any]
"""What a PE waits for, as it is published in JSON: ``call``, and what else a report should show.

From these fields the launcher also finds deadlocks (:mod:`emu.comm.watchdog.waits`). A wait that publishes none of
them may end by itself, as far as anybody knows: ``index`` and ``generation`` of a barrier; ``needed`` and ``runs``
of a wait for words; ``server`` of a wait for turns.
"""

AGAIN_S = 0.25
"""Seconds after which a wait that goes on is described again: later events may be the clue."""
MAX_LINE = 320
_ROOM = TEXT_BYTES - PLACE_BYTES

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
    while len(text) > _ROOM and lines:
        lines.pop()
        text = json.dumps(description)
    slots = description.get("slots", [])
    while len(text) > _ROOM and slots:
        slots.pop()
        description["more"] = description.get("more", 0) + 1
        text = json.dumps(description)
    for name, least in (("text", 1), ("call", MAX_LINE)):
        while len(text) > _ROOM and len(description.get(name, "")) > least:
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


def call_site() -> str:
    """Return file and line of the innermost frame in the user's code, or else in a library that calls us."""
    frame: FrameType | None = sys._getframe(1)
    library = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(OWN_FOLDERS):
            library = library or f"{name}:{frame.f_lineno}"
            if "site-packages" not in name:
                return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return library


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
