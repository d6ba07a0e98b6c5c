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
    debugger = _debugger()
    if debugger is None:
        yield
        return
    before, debugger.skip = debugger.skip, {*(debugger.skip or ()), *SKIPPED}
    try:
        yield
    finally:
        debugger.skip = before


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Suspend the tracing of this thread inside the block: whatever it calls is not stepped into."""
    debugger: Any = _debugger() if sys.gettrace() is None else None
    if debugger is not None:
        debugger.stop_trace()
        try:
            yield
        finally:
            debugger.start_trace()
        return
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _debugger() -> bdb.Bdb | None:
    """Return the debugger that traces this thread."""
    tracer = getattr(sys.gettrace(), "__self__", None)
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12; pdb uses it since 3.14
    if tracer is None and monitoring and monitoring.get_tool(monitoring.DEBUGGER_ID):
        # Nothing names it but the frames that it traces, and the one in which it runs a script.
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not isinstance(tracer, bdb.Bdb):
            tracer = getattr(frame.f_trace, "__self__", None)
            if tracer is None and frame.f_globals.get("__name__") == "bdb":
                tracer = frame.f_locals.get("self")
            frame = frame.f_back
    return tracer if isinstance(tracer, bdb.Bdb) else None


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
