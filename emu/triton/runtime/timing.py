"""Run times of functions, measured on the host."""

from __future__ import annotations

import math
import numbers
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.active import driver
from emu.triton.runtime import checks
from emu.triton.runtime.arguments import Tensor

_MODES = ("min", "max", "mean", "median", "all")


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Measure the run time of a function in milliseconds on the host's clock.

    The function runs once, then five times for an estimate of its time, then as often as fits into
    ``warmup``, then as often as fits into ``rep`` (at least once), each run timed alone. Caches are
    not emptied in between: on a CPU that would take far longer than what is measured.

    Args:
        fn: The function to measure; its result is dropped.
        warmup: Milliseconds of runs before those that are measured.
        rep: Milliseconds of runs that are measured.
        grad_to_none: Tensors whose ``grad`` is set to None before each run.
        quantiles: Quantiles to return, each in [0, 1]. Default: none; ``return_mode`` decides.
        return_mode: ``"min"``, ``"max"``, ``"mean"``, ``"median"`` or ``"all"``.

    Returns:
        One number for ``return_mode``, the list of all times for ``"all"``. With ``quantiles``: a list
        of one number per quantile, or the number where there is only one.

    Raises:
        ValueError: An argument is out of bounds; nothing was run.
    """
    _check(warmup, rep, quantiles, return_mode)
    if not callable(fn):
        raise TypeError(f"fn must be a function, but got {shown(fn, with_type=True)}")
    cleared = _checked_tensors(grad_to_none)
    synchronize = _synchronize()
    fn()
    synchronize()
    start = time.perf_counter()
    for _ in range(5):
        fn()
    synchronize()
    estimate = max((time.perf_counter() - start) / 5 * 1e3, 1e-5)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    times = _times(fn, max(1, int(rep / estimate)), cleared, synchronize)
    return summarize_statistics(times, quantiles, return_mode)


def _times(
    fn: Callable[[], object], count: int, cleared: list[Tensor], synchronize: Callable[[], None]
) -> list[float]:
    """Return the milliseconds of each of some runs."""
    clock = time.perf_counter
    times = []
    for _ in range(count):
        for tensor in cleared:
            tensor.grad = None  # else a backward pass would add to it, and take longer
        start = clock()
        fn()
        synchronize()
        times.append((clock() - start) * 1e3)
    return times


def _checked_tensors(grad_to_none: Iterable[Tensor] | None) -> list[Tensor]:
    cleared = checks.as_list("grad_to_none", grad_to_none) if grad_to_none is not None else []
    for tensor in cleared:
        if not hasattr(tensor, "grad"):
            raise TypeError(
                f"grad_to_none must be tensors, but one is {shown(tensor, with_type=True)}"
            )
    return cleared


def do_bench_cudagraph(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Iterable[Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Do as :func:`do_bench` with a fifth of ``rep`` as warm-up: there are no graphs to record."""
    return do_bench(fn, rep / 5, rep, grad_to_none, quantiles, return_mode)


def do_bench_proton(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Do as :func:`do_bench`: there is no profiler to take the times from."""
    return do_bench(fn, warmup, rep, grad_to_none, quantiles, return_mode)


def _synchronize() -> Callable[[], None]:
    synchronize: Callable[[], None] = driver.active.get_device_interface().synchronize
    return synchronize


def _check(warmup: object, rep: object, quantiles: object, return_mode: object) -> None:
    if not isinstance(return_mode, str) or return_mode not in _MODES:
        raise ValueError(f"return_mode must be one of {_MODES}, but got {return_mode!r}")
    for name, value in (("warmup", warmup), ("rep", rep)):
        if not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
            raise ValueError(f"{name} must be a number of at least 0 (ms), but got {value!r:.80}")
    if quantiles is None:
        return
    if isinstance(quantiles, (str, bytes)) or not isinstance(quantiles, Sequence):
        raise TypeError(f"quantiles must be a list of numbers, but got {quantiles!r:.80}")
    for quantile in quantiles:
        if not isinstance(quantile, numbers.Real) or not 0 <= float(quantile) <= 1:
            raise ValueError(f"quantiles must be in [0, 1], but got {quantile!r:.80}")


def _quantile(ordered: list[float], quantile: float) -> float:
    """Interpolate between the two order statistics around a quantile, as NumPy does by default."""
    position = quantile * (len(ordered) - 1)
    below = math.floor(position)
    above = math.ceil(position)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarize_statistics(
    times: list[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    """Return what :func:`do_bench` returns of its times, in milliseconds."""
    if quantiles is not None:
        ordered = sorted(times)
        found = [_quantile(ordered, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    summary: dict[str, Callable[[list[float]], float]] = {
        "min": min,
        "max": max,
        "mean": statistics.fmean,
        "median": statistics.median,
    }
    return summary[return_mode](times)
