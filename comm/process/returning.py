"""The line from which a PE's function returned: a deadlock report names it where others wait for that PE."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from emu.comm.layout import RETURNED
from emu.kernels.core.own_files import OWN_FOLDERS

_HIDDEN = (*OWN_FOLDERS, os.path.dirname(os.__file__) + os.sep, "<frozen")
_EVENTS = 2000
"""Calls among which the first one of the program's own functions is looked for."""


class _Watch:
    """The frame of the first function of the program that is called."""

    def __init__(self) -> None:
        self.frame: FrameType | None = None
        self._events = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        self._events += 1
        if event == "call" and not frame.f_code.co_filename.startswith(_HIDDEN):
            self.frame = frame
            sys.setprofile(None)
        elif self._events >= _EVENTS:
            sys.setprofile(None)


def call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, str]:
    """Call a function; return its result and the place where it returned, or ``""`` if that is not known.

    The frame knows its last line also after it is left. It is found by a profile function, which goes as soon as it
    has seen that frame, so that the program runs as fast as without it.
    """
    if sys.getprofile() is not None:
        return function(*args, **kwargs), ""
    watch = _Watch()
    sys.setprofile(watch)
    try:
        value = function(*args, **kwargs)
    finally:
        if sys.getprofile() is watch:
            sys.setprofile(None)
    frame = watch.frame
    if frame is None:
        return value, ""
    code, line = frame.f_code, frame.f_lineno
    with contextlib.suppress(RuntimeError):  # a generator, which has not ended
        frame.clear()
    return value, f"{RETURNED}{code.co_filename}:{line} in {code.co_name}"
