"""Compilation, in further processes, of kernels that later stops of the tour need.

Where the cache of compiled kernels is empty, compiling takes most of the tour's time. While the first stops run
on one core, a second process fills the cache on another, beginning with what takes longest. A kernel is compiled by
one process at a time: a stop that comes too early waits for it, and compiles what nobody has begun. A third process,
of the lowest priority, compiles for the last stops in the time that such waits leave.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import emu
from emu.kernels.core import cache_files, cache_folder
from emu.kernels.core.environment import usable_cores

_STOP_S = 2.0
"""Seconds that the process gets to end by itself, so that it removes a file that it was writing."""

_PROGRAM = f"import sys; sys.path[:] = sys.argv[3:]; import {__name__} as m; m.compile_for(*map(int, sys.argv[1:3]))"


@contextlib.contextmanager
def compiling_ahead() -> Iterator[None]:
    """Compile in further processes inside this context; do nothing where that would not help.

    It does not help with a single core, with a cache that has been filled, or one that cannot be written.
    """
    if usable_cores() < 2 or not _is_empty() or not _is_writable():
        yield
        return
    nothing = subprocess.DEVNULL
    processes = []
    try:
        for part in range(len(_PARTS)):
            command = [sys.executable, "-c", _PROGRAM, str(os.getpid()), str(part), *sys.path]
            processes.append(
                subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
            )
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:  # inside LLVM
                process.kill()
                process.wait()


def _is_empty() -> bool:
    """Return whether the server's kernels, the largest, are not in the cache; loads no compiler."""
    root = Path(emu.__file__).parent
    digest = cache_files.source_digest(root, ("kernels", "comm"), version("numba"))
    return not any((cache_folder.base() / digest).glob("executor.execute-*"))


def _is_writable() -> bool:
    """Return whether compiled kernels can be kept; elsewhere they would not reach other processes."""
    folder = cache_folder.base()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK)


def _product() -> None:
    from emu.kernels.precompile import STEPS

    STEPS["matmul"]()


def _server() -> None:
    from emu.comm.server.server import load_kernels

    load_kernels()


def _scatter() -> None:
    from emu.kernels.precompile import STEPS

    STEPS["quant_scatter"]()


def _packed() -> None:
    from emu.kernels.precompile import STEPS

    STEPS["matmul of a packed matrix"]()


def _wait() -> None:
    from emu.comm.sync.signals import wait_word
    from emu.kernels.core.jit import entry

    entry(wait_word, 6)


_PARTS = ((_product, _server, _packed), (_scatter, _wait, _packed))
"""What each further process compiles, in order."""


def compile_for(parent: int, part: int) -> None:
    """Compile, as a further process, until all is done or the process ``parent`` has ended."""
    import signal

    # An exception, so that a half-written file of the cache is removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    if part > 0:
        os.nice(19)
    for step in _PARTS[part]:
        if os.getppid() != parent:
            return
        step()
