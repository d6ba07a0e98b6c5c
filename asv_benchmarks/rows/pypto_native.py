"""PyPTO's local ops in one process: compiled batches beside NumPy, and what an op costs in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rows.local import clock
from rows.measure import Bench, Clock, Goal, Outcome, Settings, duel

Array = np.ndarray[Any, Any]
SIDE = 1024


def _random(seed: int, rows: int = SIDE) -> Array:
    return np.random.default_rng(seed).uniform(1, 2, (rows, SIDE)).astype(np.float32)


def _chain(p: Any, x: Any, y: Any) -> Any:
    t = x + y
    t = t * 2.0
    t = p.maximum(t, x)
    t = t - y
    return p.abs(t) * x


def _softmax(p: Any, x: Any, y: Any) -> Any:
    if p is not np:
        return p.softmax(x, 1)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _rms_norm(p: Any, x: Any, y: Any) -> Any:
    if p is not np:
        return p.rms_norm(x, y[0:1, :])
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-6)) * y[0:1]


def _program(function: Callable[[Any, Any, Any], Any], rows: int, settings: Settings) -> Outcome:
    """Measure a kernel of one program beside the same in NumPy; both write into an array that is there."""
    from emu import pypto

    @pypto.frontend.jit
    def kernel(x: Any, y: Any, out: Any) -> None:
        out[:, :] = function(pypto, x, y)

    x, y = _random(0, rows), _random(1, rows)
    ours, theirs = np.empty_like(x), np.empty_like(x)

    def numpy() -> None:
        theirs[:, :] = function(np, x, y)

    kernel(x, y, ours)
    numpy()
    if not np.allclose(ours, theirs, rtol=1e-5, atol=1e-6):
        return Outcome(note="the results differ")
    return duel(settings, clock(lambda: kernel(x, y, ours)), clock(numpy))


def _each(call: Callable[[], object], count: int) -> Clock:
    """Return a clock of one of the ``count`` ops of a call."""
    seconds = clock(call)
    return lambda calls: seconds(calls) / count


def _add(settings: Settings) -> Outcome:
    """Measure a kernel of one addition, its call and arguments included; each call writes what the last one wrote."""
    from emu import pypto

    @pypto.frontend.jit
    def kernel(x: Any, y: Any, out: Any) -> None:
        out[:, :] = x + y

    x, y = _random(0, SIDE // 2), _random(1, SIDE // 2)
    out = np.empty_like(x)
    kernel(x, y, out)
    return duel(settings, clock(lambda: kernel(x, y, out)), clock(lambda: np.add(x, y, out=out)))


def _node(settings: Settings) -> Outcome:
    """Measure an op on 16 x 16 elements, which NumPy computes either way."""
    from emu import pypto

    @pypto.frontend.jit
    def kernel(x: Any, y: Any, out: Any) -> None:
        t = x
        for _ in range(200):
            t = t + y
        out[:, :] = t

    x, y = _random(0)[:16, :16].copy(), _random(1)[:16, :16].copy()
    out = np.empty_like(x)

    def numpy() -> None:
        t = x
        for _ in range(200):
            t = t + y
        out[:, :] = t

    kernel(x, y, out)
    return duel(settings, _each(lambda: kernel(x, y, out), 200), _each(numpy, 200))


ROWS = [
    Bench(
        "pypto/chain of six ops, 2^20 fp32",
        "NumPy",
        "us",
        Goal(ratio=3),
        functools.partial(_program, _chain, SIDE),
    ),
    Bench("pypto/add 512x1024 fp32", "NumPy", "us", Goal(ratio=0.83), _add),
    Bench(
        "pypto/softmax 1024x1024 fp32",
        "NumPy",
        "us",
        Goal(),
        functools.partial(_program, _softmax, SIDE),
    ),
    Bench(
        "pypto/RMS norm 1024x1024 fp32",
        "NumPy",
        "us",
        Goal(),
        functools.partial(_program, _rms_norm, SIDE),
    ),
    Bench("pypto/op node", "NumPy", "us", Goal(at_most=3), _node),
]
