"""The worker's end of a measurement: wait for a task without using a core, do it, reply.

Every process that is measured, ours and the peers', is driven in the same way: it connects to the
harness over a Unix socket, says its rank, and then blocks in ``recv`` until it is asked for a task.
So whoever is not being measured sleeps, which is what lets ours and theirs alternate round by round.
Standard library only: peers import it in processes that know nothing of emu.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client
from typing import Any

Task = Callable[..., Any]
Span = tuple[int, int]
"""Start and end of what one rank did, in nanoseconds of the machine's one monotonic clock."""


def serve(address: str, rank: int, tasks: Mapping[str, Task]) -> None:
    """Do what the harness at ``address`` asks for until it hangs up."""
    with Client(address, "AF_UNIX") as link:
        link.send(rank)
        while True:
            try:
                name, arguments = link.recv()
            except EOFError:
                return
            try:
                link.send(("ok", tasks[name](**arguments)))
            except BrokenPipeError:  # the harness gave up on this round
                return
            except Exception:  # noqa: BLE001 - the harness shows whatever went wrong
                link.send(("error", traceback.format_exc()))


def die_with_parent() -> None:
    """End this process soon after its parent: no worker may outlive a killed harness."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def timed(call: Callable[[], Any], calls: int) -> Span:
    """Call ``call`` ``calls`` times; return the span."""
    turns = range(calls)
    start = time.perf_counter_ns()
    for _ in turns:
        call()
    return start, time.perf_counter_ns()


@contextlib.contextmanager
def own_core(rank: int, pinned: int) -> Iterator[None]:
    """Stay on a core of one's own meanwhile, if ``pinned`` and where the system can do it."""
    if not pinned or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[rank % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
