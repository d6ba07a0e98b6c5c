"""Room for recursion while kernels are compiled: chains of thousands of operations are followed recursively.

Python's limit belongs to the process. It is raised while at least one thread compiles, and is what it was
before when the last one has ended.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEPTH = 50_000


class _Raised:
    """Who needs the raised limit, and what it was before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = 0
        self.during = 0

    def enter(self) -> None:
        """Raise the limit for the first."""
        with self.lock:
            if not self.users:
                self.before = sys.getrecursionlimit()
                self.during = max(self.before, DEPTH)
                sys.setrecursionlimit(self.during)
            self.users += 1

    def leave(self) -> None:
        """Put the limit back after the last, unless the program has set another one meanwhile."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self.restore()

    def restore(self) -> None:
        """Put the limit back."""
        if sys.getrecursionlimit() == self.during:
            sys.setrecursionlimit(self.before)


_raised = _Raised()


def _after_fork() -> None:
    """In a child, nobody compiles but perhaps the thread that has forked: the limit is as before."""
    global _raised
    if _raised.users:
        _raised.restore()
    _raised = _Raised()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def deep() -> Iterator[None]:
    """Allow for deep recursion, in this thread and, as there is one limit, in others."""
    mine = _raised
    mine.enter()
    try:
        yield
    finally:
        mine.leave()
