"""Settings that modules read from the environment once: a PE gets its own environment when they may have been loaded.

A PE is the fork of a process that has loaded modules already.
"""

from __future__ import annotations

from collections.abc import Callable

_readers: list[Callable[[], None]] = []


def when_set(read: Callable[[], None]) -> Callable[[], None]:
    """Have a function called, which reads settings again, when this process has become a PE; return it."""
    _readers.append(read)
    return read


def read_again() -> None:
    """Read all settings again."""
    for read in _readers:
        read()
