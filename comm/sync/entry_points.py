"""Entry points of the kernels behind single puts, gets, signals and waits, without Numba's dispatch.

Each name is that of a kernel in :mod:`emu.comm.sync.signals`, where its body stands; the number is that of its
arguments, all int64. For these kernels Numba's dispatch costs more than the work: an entry point takes the
arguments as they are (:func:`emu.kernels.core.jit.entry`), and those of the shortest kernels take no tuple either
(:mod:`emu.kernels.core.quick_entry`). The kernels in ``signals`` keep Numba's dispatchers,
because other kernels call them. A kernel is loaded from the cache of compiled code, or
compiled, at its first call, so that a program waits for no kernel that it does not use.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.comm.sync import signals
from emu.kernels.core.jit import entry_when_called
from emu.kernels.core.quick_entry import (
    quick_entry_apart_when_called,
    quick_entry_when_called,
)

put_dense: Callable[..., None] = entry_when_called(signals.put_dense, 5)
put_short: Callable[..., int] = quick_entry_when_called(signals.put_short, 5)
get_dense: Callable[..., None] = entry_when_called(signals.get_dense, 5)
add_dense: Callable[..., int] = entry_when_called(signals.add_dense, 7)
move_tile: Callable[..., None] = entry_when_called(signals.move_tile, 6)
add_tile: Callable[..., int] = entry_when_called(signals.add_tile, 6)
atomic: Callable[..., int] = quick_entry_when_called(signals.atomic, 7)
wait_word: Callable[..., tuple[bool, int]] = entry_when_called(signals.wait_word, 6)
test_word: Callable[..., int] = quick_entry_when_called(signals.test_word, 5)
barrier_arrive: Callable[..., int] = quick_entry_apart_when_called(signals.barrier_arrive, 4)
barrier_wait: Callable[..., int] = entry_when_called(signals.barrier_wait, 3)
barrier_leave: Callable[..., None] = entry_when_called(signals.barrier_leave, 3)
end_sleep: Callable[..., None] = entry_when_called(signals.end_sleep, 2)
