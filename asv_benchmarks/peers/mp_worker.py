"""Python's own multiprocessing as a peer: ``python mp_worker.py ADDRESS N`` forks N ranks."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

from link import Span, die_with_parent, own_core, serve, timed


def rank_main(address: str, rank: int, gate: Any, events: Any) -> None:
    """Serve as rank ``rank``."""
    die_with_parent()
    mine, other = events[rank % 2], events[1 - rank % 2]

    def barrier(calls: int) -> Span:
        gate.wait()
        return timed(gate.wait, calls)

    def ping_pong(calls: int, pinned: int) -> Span:
        """Send ``calls`` signals each way."""

        def ping() -> None:
            other.set()
            mine.wait()
            mine.clear()

        def pong() -> None:
            mine.wait()
            mine.clear()
            other.set()

        with own_core(rank, pinned):
            gate.wait()
            return timed(pong if rank else ping, calls)

    serve(address, rank, {"barrier": barrier, "ping_pong": ping_pong})


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    count = int(sys.argv[2])
    shared = (context.Barrier(count), [context.Event(), context.Event()])
    ranks = [
        context.Process(target=rank_main, args=(sys.argv[1], rank, *shared))
        for rank in range(count)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
