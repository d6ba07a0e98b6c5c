"""Contenders that run in this process, on one thread unless they say otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable

from rows.measure import Clock


def clock(call: Callable[[], object]) -> Clock:
    """Return a clock that does ``call`` so many times."""

    def seconds(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start

    return seconds
