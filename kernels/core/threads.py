"""Threads of kernels: their number, and when a kernel must do without them.

Threads come from Numba's threading layer, which starts them at the first parallel call of a process
and never again: they cannot grow in number, and with GNU OpenMP, the usual layer, a process that was forked
after that dies as soon as it makes a parallel call itself. So a forked child whose parent had started
threads works on one. Results don't depend on it.

In a PE Numba is set to one thread, since the other cores have PEs of their own. A caller may ask for more
by argument, and gets them if nothing has started the threads before.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numba
from numba.core import config
from numba.np.ufunc import parallel

_layer: Any = parallel
_forked_with_threads = False

one_at_a_time = threading.Lock()
"""Lock of parallel calls: the ``workqueue`` layer ends the process when two threads make one."""


def _after_fork() -> None:
    global _forked_with_threads, one_at_a_time
    _forked_with_threads = bool(_layer._is_initialized)
    one_at_a_time = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def default_threads() -> int:
    """Return the number of threads a kernel uses by default: what Numba is set to, in a PE one."""
    if _forked_with_threads:
        return 1
    if _layer._is_initialized:
        return int(numba.get_num_threads())
    return int(vars(config)["NUMBA_NUM_THREADS"])


def usable_threads(wanted: int) -> int:
    """Return the number of the ``wanted`` threads that this process can have; start none yet."""
    if wanted == 1 or _forked_with_threads:
        return 1
    if not _layer._is_initialized and wanted > _layer.NUM_THREADS:
        # Numba reads these two when it starts its threads.
        _layer.NUM_THREADS = wanted
        setattr(config, "NUMBA_NUM_THREADS", wanted)  # noqa: B010 - mypy does not see the attribute
    return min(wanted, int(_layer.NUM_THREADS))
