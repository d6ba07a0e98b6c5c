"""The kernels that single puts, gets, signals and waits call, without Numba's dispatch.

For these the call costs more than the work: see :func:`emu.kernels.jit.entry`.
"""

from __future__ import annotations

from typing import Any

from emu.comm import signals
from emu.kernels.jit import entry

put_dense: Any = entry(signals.put_dense, 5)
put_short: Any = entry(signals.put_short, 5)
get_dense: Any = entry(signals.get_dense, 5)
add_dense: Any = entry(signals.add_dense, 7)
move_tile: Any = entry(signals.move_tile, 6)
add_tile: Any = entry(signals.add_tile, 6)
atomic: Any = entry(signals.atomic, 7)
wait_word: Any = entry(signals.wait_word, 6)
test_word: Any = entry(signals.test_word, 5)
barrier_arrive: Any = entry(signals.barrier_arrive, 4)
