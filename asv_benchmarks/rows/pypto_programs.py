"""Whole PyPTO programs beside the same in one NumPy process, and in torch with gloo.

Sizes are those of all PEs together: NumPy, with as many threads as there are cores, does the same work once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from emu.kernels.core.environment import usable_cores
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.team import TeamError

PROGRAMS = {
    "allgather_matmul": {"rows": 1024, "depth": 4096, "columns": 1024},
    "matmul_allreduce_rmsnorm": {"rows": 1024, "depth": 4096, "columns": 1024},
    "moe": {"tokens": 256, "hidden": 1024},
}


def _random(shape: tuple[int, ...], half: int) -> Any:
    import ml_dtypes

    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    return values.astype(ml_dtypes.bfloat16) if half else values


def _wide(array: Any) -> Any:
    """Return what NumPy multiplies fast: FP32."""
    return array.astype(np.float32, copy=False)


def _numpy_allgather_matmul(
    pes: int, rows: int, depth: int, columns: int, half: int
) -> Callable[[], Any]:
    x, w = _random((rows, depth), half), _random((depth, columns), half)
    return lambda: (_wide(x) @ _wide(w)).astype(x.dtype, copy=False)


def _numpy_matmul_allreduce_rmsnorm(
    pes: int, rows: int, depth: int, columns: int, half: int
) -> Callable[[], Any]:
    x, w, residual = (
        _random((rows, depth), half),
        _random((depth, columns), half),
        _random((rows, columns), half),
    )
    gamma = _random((1, columns), half)

    def step() -> Any:
        hidden = _wide(x) @ _wide(w) + _wide(residual)
        scale = 1 / np.sqrt((hidden * hidden).mean(axis=-1, keepdims=True) + np.float32(1e-6))
        return (hidden * scale * _wide(gamma)).astype(x.dtype, copy=False)

    return step


def _numpy_moe(pes: int, tokens: int, hidden: int, half: int) -> Callable[[], Any]:
    x, gates = _random((tokens, hidden), half), _wide(_random((tokens, 2), half))
    weights = _random((pes, hidden, hidden), half)
    rng = np.random.default_rng(1)
    experts = np.array([rng.permutation(pes)[:2] for _ in range(tokens)])

    def step() -> Any:
        out = np.zeros((tokens, hidden), np.float32)
        for expert in range(pes):
            places, choice = np.nonzero(experts == expert)
            found = _wide(x[places]) @ _wide(weights[expert])
            out[places] += found * gates[places, choice, None]
        return out.astype(x.dtype, copy=False)

    return step


_NUMPY: dict[str, Callable[..., Callable[[], Any]]] = {
    "allgather_matmul": _numpy_allgather_matmul,
    "matmul_allreduce_rmsnorm": _numpy_matmul_allreduce_rmsnorm,
    "moe": _numpy_moe,
}


_OF_NUMPY = 0.9
"""Goal with a core for each PE: PEs that share cores each run the program's Python."""

_SETTLE_S = 0.05
"""After a product the threads of OpenBLAS look for more work for about 2^26 cycles, each on a core."""

KINDS = {"fp32": (0, 0), "bf16": (1, 0), "bf16 native": (1, 1)}
"""Operands by name: whether they are of 16 bits, and whether ours are multiplied with ``precision="native"``, as torch's are."""


def _beside_gloo(program: str, pes: int, kind: str, settings: Settings) -> Outcome:
    half, native = KINDS[kind]
    sizes = {**PROGRAMS[program], "half": half}
    ours = settings.teams("emu", pes)

    def our_clock(calls: int) -> float:
        return ours.seconds(f"pypto_{program}", calls, native=native, **sizes)

    try:
        theirs = settings.teams("gloo", pes)
    except TeamError as error:
        return duel(settings, our_clock, None, str(error))
    return duel(settings, our_clock, lambda calls: theirs.seconds(program, calls, **sizes))


def _beside_numpy(program: str, pes: int, kind: str, settings: Settings) -> Outcome:
    half, native = KINDS[kind]
    sizes = {**PROGRAMS[program], "half": half}
    try:
        team = settings.teams("emu", pes)
    except TeamError as error:
        return Outcome(note=str(error))
    step = _NUMPY[program](pes, **sizes)

    def clock(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        return time.perf_counter() - start

    return duel(
        settings,
        lambda calls: team.seconds(f"pypto_{program}", calls, native=native, **sizes),
        clock,
        settle_s=_SETTLE_S,
    )


ROWS = [
    Bench(
        f"pypto/{program} {kind}, {pes} PEs",
        peer,
        "ms",
        Goal(goal if goal != _OF_NUMPY or pes <= usable_cores() else None),
        functools.partial(measure, program, pes, kind),
    )
    for program in PROGRAMS
    for kind in KINDS
    for pes in (2, 8)
    for peer, goal, measure in (
        ("NumPy, one process", _OF_NUMPY, _beside_numpy),
        ("torch, gloo", 1.5, _beside_gloo),
    )
]
