"""The kernels that single puts, gets, signals and waits call, without Numba's dispatch.

For these the call costs more than the work: see :func:`emu.kernels.core.jit.entry`. What is not in the cache of
compiled code is compiled when it is first called, so that a program waits for no kernel that it does not use.
"""

from __future__ import annotations

from typing import Any

from emu.comm.sync import signals
from emu.kernels.core.jit import entry_when_called

put_dense: Any = entry_when_called(signals.put_dense, 5)
put_short: Any = entry_when_called(signals.put_short, 5)
get_dense: Any = entry_when_called(signals.get_dense, 5)
add_dense: Any = entry_when_called(signals.add_dense, 7)
move_tile: Any = entry_when_called(signals.move_tile, 6)
add_tile: Any = entry_when_called(signals.add_tile, 6)
atomic: Any = entry_when_called(signals.atomic, 7)
wait_word: Any = entry_when_called(signals.wait_word, 6)
test_word: Any = entry_when_called(signals.test_word, 5)
barrier_arrive: Any = entry_when_called(signals.barrier_arrive, 4)
