"""Breakpoints in kernels: Python's debugger, which steps over the language's own functions."""

from __future__ import annotations

import os
import pdb
import sys
from types import FrameType
from typing import Any

SKIPPED = ("emu.*", "numpy.*", "contextlib")
"""Modules that ``step`` does not enter."""


def stop(*arguments: Any, **keywords: Any) -> None:
    """Stop in the debugger at the caller, as ``breakpoint()`` and ``pdb.set_trace()``.

    A hook of the program (``sys.breakpointhook``, ``PYTHONBREAKPOINT``) is called instead, if there is one.
    """
    own = sys.breakpointhook is not sys.__breakpointhook__
    if own or os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook(*arguments, **keywords)
        return
    frame: FrameType | None = sys._getframe(1)
    pdb.Pdb(skip=SKIPPED).set_trace(frame)
