"""Predicted costs of sharded programs: communication, arithmetic, memory.

A module is partitioned as for a run, and the program of one device is read, not run: each of
its collectives is timed by the alpha-beta model of its algorithm, its arithmetic is
counted, and the lifetimes of its values give the peak of memory. Each collective is traced to the
operation that needs it, and its axes to the steps of propagation that brought them.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.sdy.costs.analysis import cost
from emu.sdy.costs.data import Cost
from emu.sdy.costs.variants import Variants, what_if

__all__ = ["Cost", "Variants", "cost", "what_if"]
