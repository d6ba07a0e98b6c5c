"""Breakpoints in kernels: Python's debugger, which steps over the language's own functions."""

from __future__ import annotations

import bdb
import contextlib
import os
import pdb  # noqa: T100 - kernels stop in it
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SKIPPED = (
    *("emu", "emu.*", "numpy", "numpy.*", "ctypes", "ctypes.*"),
    *("abc", "contextlib", "dataclasses", "enum", "functools", "inspect", "itertools", "typing"),
    *("ast", "collections", "collections.*", "re", "re.*", "threading"),
)
"""Modules that ``step`` does not enter."""


@contextlib.contextmanager
def stepping_over_own() -> Iterator[None]:
    """Let a debugger of Python's that traces this thread step over the language's own functions, too."""
    tracer = getattr(sys.gettrace(), "__self__", None)
    if not isinstance(tracer, bdb.Bdb):
        yield
        return
    before, tracer.skip = tracer.skip, {*(tracer.skip or ()), *SKIPPED}
    try:
        yield
    finally:
        tracer.skip = before


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Suspend the tracing of this thread inside the block: whatever it calls is not stepped into."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


class KernelDebugger(pdb.Pdb):
    """Python's debugger, in which the program's own frames are all there are."""

    def __init__(self) -> None:
        super().__init__(skip=SKIPPED)

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the frames from the main module on, without those of the language, and the current one."""
        stack, current = super().get_stack(f, t)
        frame = stack[current][0]
        names = [str(s.f_globals.get("__name__", "")) for s, _ in stack]
        mains = [
            i
            for i, (entry, _) in enumerate(stack[:current])
            if names[i] == "__main__" and entry.f_code.co_name == "<module>"
        ]
        first = mains[-1] if mains else 0
        kept = [
            entry
            for entry, name in zip(stack, names, strict=True)
            if entry[0] is frame or not (self.is_skipped_module(name) or _is_launcher(entry[0]))
        ]
        kept = [entry for entry in kept if stack.index(entry) >= first]
        return kept, next(i for i, entry in enumerate(kept) if entry[0] is frame)


def _is_launcher(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<launcher of ")


def stop(*arguments: Any, **keywords: Any) -> None:
    """Stop in the debugger at the caller, as ``breakpoint()`` and ``pdb.set_trace()``.

    A hook of the program (``sys.breakpointhook``, ``PYTHONBREAKPOINT``) is called instead, if there is one.
    """
    own = sys.breakpointhook is not sys.__breakpointhook__
    if own or os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook(*arguments, **keywords)  # noqa: T100 - what the program asked for
        return
    frame: FrameType | None = sys._getframe(1)
    KernelDebugger().set_trace(frame)
