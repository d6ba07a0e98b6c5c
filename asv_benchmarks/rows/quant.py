"""quant: quantisation beside torch and NumPy, and the quantised scatter beside torch and memory.

A composite is what a user of torch or NumPy would write, made as fast as it can be without leaving
the library: every step works in place on memory that is allocated and warm.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel, typical
from rows.single import on_one_thread, tensor, torch_or_none

Calls = dict[str, Callable[[], object]]
LAST = 128


def _case() -> tuple[Any, ...]:
    """One Mi values, scales and zero points along the last axis, int8 and fp32 results."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = 3 * rng.standard_normal((8192, LAST), dtype=np.float32)
    scales = rng.uniform(0.1, 1, LAST).astype(np.float32)
    zeros = rng.uniform(-5, 5, LAST).astype(np.float32)
    return x, scales, zeros, np.zeros(x.shape, np.int8), np.zeros_like(x)


def _quantize() -> tuple[Callable[[], object], Calls]:
    import numpy as np

    from emu.kernels.quant import quantize

    x, scales, zeros, out, work = _case()

    def numpy() -> None:
        np.divide(x, scales, out=work)
        np.add(work, zeros, out=work)
        np.rint(work, out=work)
        np.clip(work, -128, 127, out=work)
        np.copyto(out, work, casting="unsafe")

    calls: Calls = {"numpy": numpy}
    torch = torch_or_none()
    if torch:
        tx, ts, tz, tout, twork = map(tensor, (x, scales, zeros, out, work))

        def composite() -> None:
            torch.div(tx, ts, out=twork)
            twork.add_(tz).round_().clamp_(-128, 127)
            tout.copy_(twork)

        calls["torch"] = composite
    return lambda: quantize(x, scales, zeros, out=out), calls


def _quantize_tensor() -> tuple[Callable[[], object], Calls]:
    from emu.kernels.quant import quantize

    x, _, _, out, _ = _case()
    calls: Calls = {}
    torch = torch_or_none()
    if torch:
        tx = tensor(x)
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        calls["torch"] = lambda: torch.quantize_per_tensor(tx, 0.5, 2, torch.qint8)
    return lambda: quantize(x, 0.5, 2.0, out=out), calls


def _dequantize() -> tuple[Callable[[], object], Calls]:
    import numpy as np

    from emu.kernels.quant import dequantize, quantize

    x, scales, zeros, q, out = _case()
    quantize(x, scales, zeros, out=q)

    def numpy() -> None:
        np.add(q, zeros, out=out)
        np.multiply(out, scales, out=out)

    calls: Calls = {"numpy": numpy}
    if torch_or_none():
        tq, ts, tz, tout = map(tensor, (q, scales, zeros, out))
        calls["torch"] = lambda: tout.copy_(tq).add_(tz).mul_(ts)
    return lambda: dequantize(q, scales, zeros, out=out), calls


def _dynamic() -> tuple[Callable[[], object], Calls]:
    import numpy as np

    from emu.kernels.quant import dynamic_quantize

    x, _, _, out, work = (a.reshape(-1, 8 * LAST) if a.ndim == 2 else a for a in _case())
    scales = np.zeros(len(x), np.float32)

    def numpy() -> None:
        np.abs(x, out=work)
        np.max(work, -1, out=scales)
        np.divide(scales, np.float32(127), out=scales)
        np.divide(x, scales[:, None], out=work)
        np.rint(work, out=work)
        np.copyto(out, work, casting="unsafe")

    calls: Calls = {"numpy": numpy}
    torch = torch_or_none()
    if torch:
        tx, ts, tout, twork = map(tensor, (x, scales, out, work))

        def composite() -> None:
            torch.abs(tx, out=twork)
            torch.amax(twork, -1, out=ts)
            ts.div_(127)
            torch.div(tx, ts[:, None], out=twork)
            tout.copy_(twork.round_())

        calls["torch"] = composite
    return lambda: dynamic_quantize(x, out=out, scales_out=scales), calls


def cache_case(batches: int, length: int, run: int) -> tuple[Any, ...]:
    """Return an int8 cache, starts, bf16 updates, scales and zero points, all pages touched."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(0)
    block = (3 * rng.standard_normal((1, 64, LAST), dtype=np.float32)).astype(ml_dtypes.bfloat16)
    updates = np.empty((batches, run, LAST), ml_dtypes.bfloat16)
    updates.reshape(-1, *block.shape[1:])[...] = block
    cache = np.empty((batches, length, LAST), np.int8)
    cache[...] = 0
    starts = rng.integers(0, length - run + 1, batches)
    scales = rng.uniform(0.1, 1, LAST).astype(ml_dtypes.bfloat16)
    zeros = rng.uniform(-5, 5, LAST).astype(ml_dtypes.bfloat16)
    return cache, starts, updates, scales, zeros


def scatter_case() -> tuple[tuple[Any, ...], Calls]:
    """Half of a cache of 24 batches; composites that write it."""
    run = 4096
    case = cache_case(24, 2 * run, run)
    calls: Calls = {}
    torch = torch_or_none()
    if torch:
        cache, starts, updates, scales, zeros = map(tensor, case)
        wide_scales, wide_zeros = scales.float(), zeros.float()
        work, batch_work = torch.zeros(updates.shape), torch.zeros(updates.shape[1:])
        places = starts.tolist()

        def at_once() -> None:
            torch.div(updates, wide_scales, out=work)
            work.add_(wide_zeros).round_().clamp_(-128, 127)
            for i, start in enumerate(places):
                cache[i, start : start + run].copy_(work[i])

        def batch_by_batch() -> None:
            for i, start in enumerate(places):
                torch.div(updates[i], wide_scales, out=batch_work)
                batch_work.add_(wide_zeros).round_().clamp_(-128, 127)
                cache[i, start : start + run].copy_(batch_work)

        calls = {"torch": at_once, "torch, batch by batch": batch_by_batch}
    return case, calls


def token_case() -> tuple[tuple[Any, ...], Calls]:
    """One token in each batch of a cache; the composite that writes it."""
    case = cache_case(24, 4096, 64)
    case = (*case[:2], case[2][:, :1].copy(), *case[3:])
    calls: Calls = {}
    torch = torch_or_none()
    if torch:
        cache, starts, updates, scales, zeros = map(tensor, case)
        wide_scales, wide_zeros = scales.float(), zeros.float()
        rows = torch.arange(24)

        def composite() -> None:
            wide = (updates.float() / wide_scales + wide_zeros).round_().clamp_(-128, 127)
            cache[rows, starts] = wide.to(torch.int8)[:, 0]

        calls["torch"] = composite
    return case, calls


def _scatter() -> tuple[Callable[[], object], Calls]:
    from emu.kernels.quant import quant_scatter

    case, calls = scatter_case()
    return lambda: quant_scatter(*case), calls


def _token() -> tuple[Callable[[], object], Calls]:
    from emu.kernels.quant import quant_scatter

    case, calls = token_case()
    return lambda: quant_scatter(*case), calls


def _against_memory(settings: Settings) -> Outcome:
    from emu.kernels.quant import quant_scatter

    return against_memory(settings, lambda case: quant_scatter(*case))


def against_memory(settings: Settings, scatter: Callable[[tuple[Any, ...]], object]) -> Outcome:
    """Bytes read and written a second, beside a copy that reads and writes as many.

    ``scatter`` is given what :func:`cache_case` makes.
    """
    import numpy as np

    batches, length = (2, 4096) if settings.quick else (32, 65536)
    case = cache_case(batches, length, length * 3 // 4)
    moved = case[2].nbytes + case[2].size
    source = np.ones(moved // 2, np.uint8)
    target = np.ones(moved // 2, np.uint8)
    seconds: list[list[float]] = [[], []]
    for turn in range(settings.rounds // 2 + 2):
        for samples, call in zip(
            seconds, (lambda: scatter(case), lambda: np.copyto(target, source)), strict=True
        ):
            start = time.perf_counter()
            call()
            if turn:  # the first compiles
                samples.append(time.perf_counter() - start)
    ours, theirs = (moved / typical(samples) / 1e9 for samples in seconds)
    return Outcome(ours, theirs, "a cache of 1 MiB" if settings.quick else "")


def run(
    make: Callable[[], tuple[Callable[[], object], Calls]], peer: str, settings: Settings
) -> Outcome:
    ours, calls = make()
    if peer not in calls:
        return duel(settings, clock(ours), None, "torch is not installed")
    if peer == "numpy":
        return duel(settings, clock(ours), clock(calls[peer]))
    with on_one_thread():
        return duel(settings, clock(ours), clock(calls[peer]))


def _row(name: str, peer: str, goal: float | None, make: Any) -> Bench:
    return Bench(f"quant/{name}", peer, "us", Goal(goal), functools.partial(run, make, peer))


ROWS = [
    _row("quantise fp32 by channel", "torch", 0.9, _quantize),
    _row("quantise fp32 by channel", "numpy", 3.0, _quantize),
    _row("quantise fp32 by one scale", "torch", 0.9, _quantize_tensor),
    _row("dequantise to fp32", "torch", 0.9, _dequantize),
    _row("dequantise to fp32", "numpy", 3.0, _dequantize),
    _row("dynamic quantise fp32", "torch", 0.9, _dynamic),
    _row("dynamic quantise fp32", "numpy", 3.0, _dynamic),
    _row("scatter [24, 4096, 128]", "torch", 5.0, _scatter),
    _row("scatter [24, 4096, 128]", "torch, batch by batch", None, _scatter),
    _row("scatter one token of 24", "torch", 0.9, _token),
    Bench(
        "quant/scatter into 256 MiB",
        "memory",
        "GB/s",
        Goal(0.6),
        _against_memory,
        more_is_better=True,
    ),
]
