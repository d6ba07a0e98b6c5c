"""What PEs that take turns need, loaded once in the process that they are forked from: import this there."""

from __future__ import annotations

from emu.kernels.core.jit import load_stored_entries
from emu.schedule import sleeping, turns

__all__ = ["sleeping", "turns"]

load_stored_entries()
