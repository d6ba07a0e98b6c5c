"""Operators of torch on symmetric memory: what they read and write there is told to the check of races between PEs.

A tensor that was made of such memory, by ``torch.from_numpy(array.local)``, is a tensor of the host like others; which bytes an
operator uses follows from its schema and the tensor's strides. A dispatch mode sees all operators, where a check is on.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.byte_regions import MOST_RUNS, Region
from emu.accelerator.check_mode import CheckMode
from emu.accelerator.patches import Ledger
from emu.accelerator.stream_operators import is_traced, operands, plan_of, run
from emu.accelerator.stream_tracker import region_of
from emu.accelerator.wrappers import PLAIN
from emu.comm.world.listened_heaps import Heaps, find_heaps

_TELLING = frozenset({"symm_mem"})
"""Namespaces whose operators tell of their uses themselves, as they happen."""
_ledger = Ledger()
_mode: HeapMode | None = None


class HeapMode(CheckMode):
    """Mode of this module's docstring, for one thread.

    Args:
        heaps: Symmetric memory, and who is told.
    """

    def __init__(self, heaps: Heaps) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
        self._heaps = heaps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and tell what it uses of symmetric memory."""
        kwargs = kwargs or {}
        if is_traced():
            return run(func, args, kwargs)
        # Classes that handle operators themselves: those on what they hold come here.
        if not PLAIN.issuperset(types):
            return NotImplemented
        made = run(func, args, kwargs)
        plan = plan_of(func)
        if not plan.is_unseen and getattr(func, "namespace", "") not in _TELLING:
            with torch._C.DisableTorchFunction():
                for tensor, storage, writes in operands(plan, args, kwargs)[0]:
                    if self._heaps.low <= storage.data_ptr() < self._heaps.high:
                        self._tell(plan.name, tensor, storage.data_ptr(), writes)
        return made

    def _tell(self, name: str, tensor: Tensor, start: int, writes: bool) -> None:
        region = region_of(tensor)
        spans = None if region is None else _spans(region, start)
        if spans is not None:
            self._heaps.listener.used_spans(f"torch {name}", spans, writes=writes)


def _spans(region: Region, start: int) -> np.ndarray[Any, Any] | None:
    """Return the addresses of a region's runs, ascending and apart; None: there are too many."""
    if math.prod(size for size, _ in region.steps) > MOST_RUNS:
        return None
    firsts = np.array([start + region.start], np.int64)
    for size, stride in region.steps:
        firsts = (firsts[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    firsts = np.unique(firsts)
    return np.stack([firsts, firsts + region.run], axis=1)


def start() -> None:
    """Tell of operators from now on, if this process is a PE where races are looked for; a second call does nothing."""
    global _mode
    heaps = find_heaps()
    if heaps is None or _mode is not None:
        return
    _mode = HeapMode(heaps)
    _mode.__enter__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
    _watch_threads(heaps)


def stop() -> None:
    """Tell of operators no more.

    Raises:
        RuntimeError: Another dispatch mode was entered after :func:`start`, and not left.
    """
    global _mode
    if _mode is None:
        return
    _mode.leave("symmetric memory")
    _ledger.undo_all()
    _mode = None


def _watch_threads(heaps: Heaps) -> None:
    """Enter the mode in each thread started from now on: a dispatch mode belongs to a thread."""
    before = threading.Thread.run

    def run_inside(self: threading.Thread) -> None:
        if _mode is None:
            before(self)
            return
        with HeapMode(heaps):
            before(self)

    _ledger.replace(threading.Thread, "run", run_inside, "a mode belongs to a thread")
