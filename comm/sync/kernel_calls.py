"""What compiled kernels of other rooms ask of the machine: addresses and integers only, no objects.

Such a kernel knows one address, that of its process's *machine words* (:mod:`emu.comm.world.kernel_calls`), which say where the
heaps and the groups lie. Each function takes it first, and after it ``int64`` values; each returns one. They check
nothing: the kernel has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.sync import signals
from emu.comm.sync.kernel_numbers import (
    GROUP_BYTES,
    GROUPS,
    HAS_GROUPS,
    ME,
    MEMBERS,
    MY_PE,
    N_PES,
    SIZE,
)
from emu.comm.sync.locks import word
from emu.kernels.atomics import fence as memory_fence
from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit


@jit()
def put(machine: int, pe: int, offset: int, source: int, nbytes: int) -> int:
    """Copy memory to an offset of PE ``pe``'s heap, and wake it."""
    signals.put_bytes(word(machine, ME), pe, offset, source, nbytes)
    return 0


@jit()
def get(machine: int, pe: int, offset: int, target: int, nbytes: int) -> int:
    """Copy from an offset of PE ``pe``'s heap."""
    signals.get_bytes(word(machine, ME), pe, offset, target, nbytes)
    return 0


@jit()
def atomic(
    machine: int, pe: int, offset: int, size: int, operation: int, value: int, expected: int
) -> Any:
    """Do an operation of :func:`emu.comm.sync.signals.atomic`; return the old value."""
    return signals.atomic(word(machine, ME), pe, offset, size, operation, value, expected)


@jit()
def put_signal(
    machine: int,
    pe: int,
    offset: int,
    source: int,
    nbytes: int,
    signal: int,
    size: int,
    operation: int,
    value: int,
) -> int:
    """Do a put, and then an operation on the word at the offset ``signal`` of the same heap."""
    put(machine, pe, offset, source, nbytes)
    atomic(machine, pe, signal, size, operation, value, 0)
    return 0


@jit()
def fence(machine: int) -> int:
    """Order the stores of this PE."""
    memory_fence()
    return 0


@jit()
def quiet(machine: int) -> int:
    """Complete the stores of this PE, which they are when they were issued."""
    memory_fence()
    return 0


@jit()
def changed(machine: int, pe: int) -> int:
    """Wake PE ``pe``, whose heap was changed by plain stores."""
    memory_fence()
    signals.ring(word(machine, ME), pe)
    return 0


@jit()
def carried(machine: int, pe: int, sent: int, fetched: int) -> int:
    """Take the time of bytes that went to PE ``pe`` and came from it; nothing, where there is no emulated link."""
    return 0


@jit()
def _entry(machine: int, group: int) -> Any:
    return word(machine, GROUPS) + group * word(machine, GROUP_BYTES)


@jit()
def team_size(machine: int, group: int) -> Any:
    """Return the number of members of a group; 0: there is no such group."""
    if group == 0:
        return word(machine, N_PES)
    if group < 0 or group >= word(machine, HAS_GROUPS):
        return 0
    # Of an entry that nobody has filled yet this is 0.
    return carray(as_pointer(_entry(machine, group) + word(machine, SIZE)), (1,), np.int64)[0]


@jit()
def team_world_pe(machine: int, group: int, pe: int) -> Any:
    """Return the world number of a group's member; -1: there is none."""
    if pe < 0 or pe >= team_size(machine, group):
        return -1
    if group == 0:
        return pe
    first = _entry(machine, group) + word(machine, MEMBERS)
    return np.int64(carray(as_pointer(first + 4 * pe), (1,), np.int32)[0])


@jit()
def team_pe(machine: int, group: int) -> Any:
    """Return this PE's number in a group; -1: it is no member."""
    for pe in range(team_size(machine, group)):
        if team_world_pe(machine, group, pe) == word(machine, MY_PE):
            return pe
    return -1


@jit()
def arrive(machine: int, group: int) -> Any:
    """Arrive at a group's barrier; return the generation that ends when all have, or ``DONE``, ``DIFFERS``."""
    return signals.barrier_count(
        word(machine, ME), _entry(machine, group), team_size(machine, group), 1
    )


@jit()
def passed(machine: int, group: int, generation: int) -> Any:
    """Return whether all members came to a barrier, that is over, with the same call: ``DONE``, or ``DIFFERS``."""
    return signals.barrier_passed(_entry(machine, group), generation)


@jit()
def wait_begins(machine: int) -> int:
    """Return when a wait begins, for :func:`waited`; 0: nobody wants to know."""
    return 0


@jit()
def waited(machine: int, offset: int, size: int, comparison: int, value: int, begun: int) -> int:
    """Note that a wait of a kernel for a word of this PE's heap has ended; ``begun`` is what :func:`wait_begins` returned."""
    return 0


CALLS = (
    put,
    get,
    put_signal,
    atomic,
    fence,
    quiet,
    changed,
    wait_begins,
    carried,
    waited,
    arrive,
    passed,
    team_size,
    team_world_pe,
    team_pe,
)
"""In the order of :data:`emu.comm.sync.kernel_numbers.CALLS`, whose last ones are :data:`~emu.comm.sync.kernel_numbers.OVER_HOSTS`."""
