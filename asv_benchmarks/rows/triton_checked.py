"""triton: what it costs to check every address, and to compile flash attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rows import triton
from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import torch_or_none

LARGEST_COST = 1.5
"""A checked launch may take this many times as long as the same without checks."""


def _checked(call: triton.Call) -> triton.Call:
    """Return a call that checks addresses in the launches that it makes."""
    from emu import triton as language

    def checked() -> None:
        before = language.knobs.runtime.check
        language.knobs.runtime.check = "bounds"
        try:
            call()
        finally:
            language.knobs.runtime.check = before

    return checked


def _cost(settings: Settings, make: Callable[[int], triton.Call]) -> Outcome:
    if not torch_or_none():
        return Outcome(note=triton.NO_TORCH)
    call = make(1)
    return duel(settings, clock(_checked(call)), clock(call))


def _bench(name: str, make: Callable[[int], triton.Call]) -> Bench:
    return Bench(
        f"triton/{name} with checked addresses, 1 thread",
        "unchecked",
        "ms",
        Goal(1 / LARGEST_COST),
        partial(_cost, make=make),
    )


ROWS = [
    _bench("add 2^24 fp32", triton.add),
    _bench("softmax 1823x781", triton.softmax),
    _bench("matmul fp32 1024, 64x64x32", triton.matmul),
    _bench("layer norm 1151x8192", triton.layer_norm),
    Bench(
        "triton/cold compile of flash attention",
        "-",
        "s",
        Goal(at_most=0.35),
        partial(triton.cold, name="flash_attention"),
    ),
]
