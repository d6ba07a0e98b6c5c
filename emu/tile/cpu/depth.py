"""Python recursion limit while kernels are compiled: analyses recurse along chains of thousands of operations.

The limit belongs to the process, so threads that compile at once must not restore it under each other: it is
raised by the first and restored by the last.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEPTH = 50_000


class _Raised:
    """Count of the compilations that need the raised limit, and the limit before them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = 0
        self.during = 0

    def enter(self) -> None:
        """Raise the limit for the first compilation."""
        with self.lock:
            if not self.users:
                self.before = sys.getrecursionlimit()
                self.during = max(self.before, DEPTH)
                sys.setrecursionlimit(self.during)
            self.users += 1

    def leave(self) -> None:
        """Restore the limit after the last compilation, unless the program has set another one meanwhile."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self.restore()

    def restore(self) -> None:
        """Restore the limit."""
        if sys.getrecursionlimit() == self.during:
            sys.setrecursionlimit(self.before)


_raised = _Raised()


def _after_fork() -> None:
    """Restore the limit in a child: of the threads that compiled, none but the forking one is left."""
    global _raised
    if _raised.users:
        _raised.restore()
    _raised = _Raised()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def deep() -> Iterator[None]:
    """Allow deep recursion inside the block, in this thread and, as there is one limit, in others."""
    mine = _raised
    mine.enter()
    try:
        yield
    finally:
        mine.leave()
