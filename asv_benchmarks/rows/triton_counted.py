"""triton: what it costs to count what kernels do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rows import triton
from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import torch_or_none

LARGEST_COST = 2.0
"""A counted launch may take this many times as long as the same without."""


def _counted(call: triton.Call, forgets: bool) -> triton.Call:
    """Return a call whose launches are counted; ``forgets``: as if each had other arguments than those before."""
    from emu.trace.counting import collect
    from emu.triton.runtime import counted

    def run() -> None:
        before = counted.MOST_KNOWN
        counted.MOST_KNOWN = 0 if forgets else before
        try:
            with collect():
                call()
        finally:
            counted.MOST_KNOWN = before

    return run


def _cost(settings: Settings, make: Callable[[int], triton.Call], forgets: bool) -> Outcome:
    if not torch_or_none():
        return Outcome(note=triton.NO_TORCH)
    call = make(1)
    return duel(settings, clock(_counted(call, forgets)), clock(call))


def _bench(name: str, make: Callable[[int], triton.Call], forgets: bool = False) -> Bench:
    how = "counted as new" if forgets else "counted"
    return Bench(
        f"triton/{name} {how}, 1 thread",
        "plain",
        "ms",
        Goal(1 / LARGEST_COST),
        partial(_cost, make=make, forgets=forgets),
    )


ROWS = [
    _bench(name, make, forgets)
    for forgets in (False, True)
    for name, make in (
        ("add 2^24 fp32", triton.add),
        ("softmax 1823x781", triton.softmax),
        ("matmul fp32 1024, 64x64x32", triton.matmul),
    )
]
