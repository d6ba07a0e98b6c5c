"""What PEs whose events are recorded need, loaded once in the process that they are forked from: import this there."""

from __future__ import annotations

from emu.kernels.core.jit import load_stored_entries
from emu.trace import groups, recorder, ring

__all__ = ["groups", "recorder", "ring"]

load_stored_entries()
