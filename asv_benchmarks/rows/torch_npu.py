"""torch_npu: the operators on torch tensors, beside composites of torch and beside memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rows import quant
from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import on_one_thread, tensor, torch_or_none

Calls = dict[str, Callable[[], object]]
NO_TORCH = "torch is not installed"


def _scatter_into(case: tuple[Any, ...]) -> Callable[[], object]:
    from emu.torch_npu import npu_quant_scatter_

    return lambda: npu_quant_scatter_(*case, axis=-2, quant_axis=-1)


def _operator(
    make: Callable[[], tuple[tuple[Any, ...], Calls]],
) -> tuple[Callable[[], object], Calls]:
    case, calls = make()
    return _scatter_into(tuple(map(tensor, case))), calls


def _matmul() -> tuple[Callable[[], object], Calls]:
    """256 tokens through a layer of 1024 by 1024, to fp16."""
    import numpy as np
    import torch

    from emu.torch_npu import npu_quant_matmul

    rng = np.random.default_rng(0)
    x1, x2 = (
        torch.from_numpy(rng.integers(-128, 128, shape).astype(np.int8))
        for shape in ((256, 1024), (1024, 1024))
    )
    scale, rows = (torch.from_numpy(rng.random(n, np.float32) / 999) for n in (1024, 256))
    half = torch.float16

    def composite() -> None:
        torch._int_mm(x1, x2).float().mul_(scale).mul_(rows[:, None]).to(half)

    call = functools.partial(npu_quant_matmul, pertoken_scale=rows, output_dtype=half)
    return lambda: call(x1, x2, scale), {"torch": composite}


def _cache_write() -> tuple[Callable[[], object], Calls]:
    """256 tokens of 8 heads of 128 into a paged cache of 16-bit keys and values."""
    import torch

    from emu.torch_npu import npu_scatter_pa_kv_cache

    key, value = (torch.ones(256, 8, 128, dtype=torch.bfloat16) for _ in range(2))
    caches = [torch.zeros(64, 128, 8, 128, dtype=torch.bfloat16) for _ in range(2)]
    slots = torch.randperm(64 * 128, generator=torch.Generator().manual_seed(0))[:256]

    def composite() -> None:
        for cache, rows in zip(caches, (key, value), strict=True):
            cache[slots // 128, slots % 128] = rows

    return lambda: npu_scatter_pa_kv_cache(key, value, *caches, slots), {"torch": composite}


def _run(make: Callable[[], tuple[Callable[[], object], Calls]], settings: Settings) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    import numba

    ours, calls = make()
    before = numba.get_num_threads()
    numba.set_num_threads(1)  # the product would otherwise share its work
    try:
        with on_one_thread():
            return duel(settings, clock(ours), clock(calls["torch"]))
    finally:
        numba.set_num_threads(before)


def _memory(settings: Settings) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    return quant.against_memory(settings, lambda case: _scatter_into(tuple(map(tensor, case)))())


def _overhead(settings: Settings) -> Outcome:
    """Return how much longer a call takes with tensors than with arrays, for one token of 24."""
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    case, _ = quant.token_case()
    both = (_scatter_into(tuple(map(tensor, case))), _scatter_into(case))
    found = duel(settings, clock(both[0]), clock(both[1]))
    if found.ours is None or found.theirs is None:
        return found
    note = f"{found.ours * 1e6:.1f} us with tensors, {found.theirs * 1e6:.1f} us with arrays"
    return Outcome(found.ours - found.theirs, note=note)


def _row(name: str, goal: float | None, make: Callable[[], Any]) -> Bench:
    return Bench(f"torch_npu/{name}", "torch", "us", Goal(goal), functools.partial(_run, make))


ROWS = [
    _row("quant_scatter_ [24, 4096, 128]", 5.0, functools.partial(_operator, quant.scatter_case)),
    _row("quant_scatter_ one token of 24", None, functools.partial(_operator, quant.token_case)),
    _row("quant_matmul 256 tokens, 1024 by 1024", 0.9, _matmul),
    _row("scatter_pa_kv_cache 256 tokens", 0.9, _cache_write),
    Bench(
        "torch_npu/quant_scatter_ into 256 MiB",
        "memory",
        "GB/s",
        Goal(0.6),
        _memory,
        more_is_better=True,
    ),
    Bench("torch_npu/quant_scatter_ tensors", "", "us", Goal(at_most=20), _overhead),
]
