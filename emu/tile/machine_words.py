"""The machine words of this process: where kernels find the machine that their PE is a part of.

They stand at one address as long as the process lives. They are written when the first kernel that needs them is made
ready for launches in a process that has a World, and again when it has another World.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from emu.comm.sync import kernel_numbers
from emu.tile.machine import CALLS, WORDS, place_of_call

_words = (ctypes.c_int64 * (kernel_numbers.WORDS + len(CALLS)))()

ADDRESS = ctypes.addressof(_words)
"""Where they stand."""

on_failure: Callable[[BaseException], None] | None = None
"""Is told what a call of a kernel has raised, on the thread of the kernel; set by what runs compiled kernels."""


site_of_call: Callable[[], tuple[str, int] | None] | None = None
"""Returns file and line of the call that a kernel of this thread makes; set by what runs compiled kernels."""


class _Failure(threading.local):
    error: BaseException | None = None


_failure = _Failure()
_written: Any = None
_known: set[str] = set()


def prepare(calls: Collection[str] = ()) -> None:
    """See to it that the words are those of this process's World.

    Args:
        calls: Names of the calls that will be made.

    Raises:
        CommError: This process is no PE.
    """
    global _written
    # Here: most processes launch kernels without a World, and the calls load Numba.
    from emu.comm.world import current

    world = current.world()
    if world is _written and _known.issuperset(calls):
        return
    from emu.comm.world.kernel_calls import write_call, write_machine_words

    if world is not _written:
        write_machine_words(world, _words)
        _known.clear()
        _written = world
    for name in calls:
        if name not in _known:
            write_call(world, _words, name, _failed, _place)
            _known.add(name)


def _place() -> tuple[str, int] | None:
    return None if site_of_call is None else site_of_call()


def _failed(error: BaseException) -> None:
    _failure.error = error
    if on_failure is not None:
        on_failure(error)


def grid_memory() -> tuple[int, int] | None:
    """Return the first address of the memory in which the programs of a grid meet, and the one behind it.

    None: the words were never written, so that no kernel has its address.
    """
    start = int(_words[WORDS["grid"]])
    return (start, start + kernel_numbers.GRID_BYTES) if start else None


def read(what: str) -> int:
    """Return a word, for what runs kernels in Python."""
    prepare()
    return int(_words[WORDS[what]])


def call(what: str, operands: Sequence[int]) -> int:
    """Make a call, for what runs kernels in Python; raise what it raises."""
    prepare([what])
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * (len(operands) + 1))
    result = int(kind(_words[place_of_call(what)])(ADDRESS, *operands))
    error, _failure.error = _failure.error, None
    if error is not None:
        raise error
    return result
