"""Compilation in PEs, which the launcher counts as progress and may announce to the user.

A kernel is compiled when a PE calls it for the first time and it is not in the cache. That takes up to
some seconds, in which other PEs that call the same kernel wait for the first of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from emu.comm.layout import B_COMPILING, B_COMPILING_COUNT, B_READING
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import check_stopped
from emu.kernels.core import cache_files

announce: Callable[[], None] | None = None
"""Called in the launcher, once per launch, when PEs are seen to compile kernels of this package; set by the
command line."""


def report_to(segment: Segment, pe: int) -> Callable[[], None]:
    """Make this process, PE ``pe``, note in its block when it compiles; return what ends that."""
    block, lock = segment.block(pe), threading.Lock()

    def note(begins: bool, kernel: str) -> None:
        with lock:
            block[B_COMPILING] += 1 if begins else -1
            block[B_COMPILING_COUNT] += begins and kernel.startswith("emu.")
        if not begins and threading.current_thread() is threading.main_thread():
            # A stop was raised inside of the compiler, which may have made another error of it.
            check_stopped(segment)

    cache_files.listen(note)
    return lambda: cache_files.ignore(note)


def is_compiling(segment: Segment, pe: int) -> bool:
    """Return whether PE ``pe`` compiles a kernel, or waits for another that does."""
    return int(segment.block(pe)[B_COMPILING]) > 0


def is_reading_input(segment: Segment, pe: int) -> bool:
    """Return whether PE ``pe`` waits for standard input."""
    return int(segment.block(pe)[B_READING]) > 0


class Watch:
    """Compilation in the PEs of one world, as the launcher sees it."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._announced = announce is None

    def observe(self) -> None:
        """Announce that something is compiled, the first time that it is seen."""
        if not self._announced and self.anything_compiled():
            self._announced = True
            if announce is not None:
                announce()

    def anything_compiled(self) -> bool:
        """Return whether any PE has called a kernel of this package that was not in the cache."""
        segment = self._segment
        return any(segment.block(pe)[B_COMPILING_COUNT] for pe in range(segment.layout.n_pes))
