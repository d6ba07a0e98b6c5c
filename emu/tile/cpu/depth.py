"""Python's recursion limit and garbage collector while kernels are compiled.

Analyses recurse along chains of thousands of operations. And what a compilation makes lives to its end: to look for
garbage among a hundred thousand new objects, again and again, finds nothing.

Both belong to the process, so threads that compile at once must not restore them under each other: they are set by the
first and restored by the last.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEPTH = 50_000
OBJECTS = 1_000_000
"""New objects after which garbage is looked for meanwhile; where a program set none at all (0), that stays."""


class _Raised:
    """Count of the compilations that need the raised limits, and the limits before them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = 0
        self.during = 0
        self.objects = gc.get_threshold()
        self.objects_during = self.objects

    def enter(self) -> None:
        """Raise the limits for the first compilation."""
        with self.lock:
            if not self.users:
                self.before = sys.getrecursionlimit()
                self.during = max(self.before, DEPTH)
                sys.setrecursionlimit(self.during)
                self.objects = first, second, third = gc.get_threshold()
                self.objects_during = max(first, OBJECTS) if first else 0, second, third
                gc.set_threshold(*self.objects_during)
            self.users += 1

    def leave(self) -> None:
        """Restore both after the last compilation, unless the program has set others meanwhile."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self.restore()

    def restore(self) -> None:
        """Restore what is still as it was set."""
        if sys.getrecursionlimit() == self.during:
            sys.setrecursionlimit(self.before)
        if gc.get_threshold() == self.objects_during:
            gc.set_threshold(*self.objects)


_raised = _Raised()


def _after_fork() -> None:
    """Restore the limits in a child: of the threads that compiled, none but the forking one is left."""
    global _raised
    if _raised.users:
        _raised.restore()
    _raised = _Raised()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def deep() -> Iterator[None]:
    """Allow deep recursion and seldom collect garbage inside the block, in this thread and, as there is one limit, in others."""
    mine = _raised
    mine.enter()
    try:
        yield
    finally:
        mine.leave()
