"""What our PEs do in the rows of whole PyPTO programs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import emu

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

from link import Span, timed

Step = Callable[[], Any]


def _random(seed: int, shape: tuple[int, ...], half: int) -> Any:
    import ml_dtypes

    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return values.astype(ml_dtypes.bfloat16) if half else values


@functools.cache
def _allgather_matmul(rows: int, depth: int, columns: int, half: int) -> Step:
    """Return the product of rows x depth, in shares of rows, and depth x columns, in shares of columns."""
    from emu.pypto import programs

    pes, me = emu.world().n_pes, emu.world().my_pe
    x, w = _random(me, (rows // pes, depth), half), _random(9 + me, (depth, columns // pes), half)
    out = np.zeros((rows, columns // pes), x.dtype)
    return functools.partial(programs.allgather_matmul, x, w, out)


@functools.cache
def _matmul_allreduce_rmsnorm(rows: int, depth: int, columns: int, half: int) -> Step:
    """Return the product of rows x depth, in shares of columns, and depth x columns, in shares of rows; summed and normalised."""
    from emu.pypto import programs

    pes, me = emu.world().n_pes, emu.world().my_pe
    x, w = _random(me, (rows, depth // pes), half), _random(9 + me, (depth // pes, columns), half)
    residual, gamma = _random(7, (rows, columns), half), _random(8, (1, columns), half)
    out = np.zeros((rows, columns), x.dtype)
    return functools.partial(
        programs.matmul_allreduce_rmsnorm, x, w, residual, gamma, out, emu.world().n_pes
    )


@functools.cache
def _moe(tokens: int, hidden: int, half: int) -> Step:
    """Return a mixture of experts, one on each PE, over all PEs' tokens; each goes to two."""
    from emu.pypto import programs

    pes, me = emu.world().n_pes, emu.world().my_pe
    share = tokens // pes
    x, gates = _random(me, (share, hidden), half), _random(50 + me, (share, 2), half)
    rng = np.random.default_rng(me)
    experts = np.array([rng.permutation(pes)[:2] for _ in range(share)], np.int32)
    weight = _random(100 + me, (hidden, hidden), half)
    out = np.zeros((share, hidden), x.dtype)
    return functools.partial(programs.moe_dispatch_combine, x, experts, gates, weight, out, pes)


def _run(make: Callable[..., Step], calls: int, sizes: dict[str, int]) -> Span:
    from emu import pypto

    step = make(**{name: size for name, size in sizes.items() if name != "native"})
    emu.world().barrier()
    with pypto.set_options(precision="native" if sizes.get("native") else "exact"):
        return timed(step, calls)


def pypto_allgather_matmul(calls: int, **sizes: int) -> Span:
    """Gather rows and multiply."""
    return _run(_allgather_matmul, calls, sizes)


def pypto_matmul_allreduce_rmsnorm(calls: int, **sizes: int) -> Span:
    """Multiply, sum, add, normalise."""
    return _run(_matmul_allreduce_rmsnorm, calls, sizes)


def pypto_moe(calls: int, **sizes: int) -> Span:
    """Dispatch, multiply, combine."""
    return _run(_moe, calls, sizes)


TASKS = {
    task.__name__: task
    for task in (pypto_allgather_matmul, pypto_matmul_allreduce_rmsnorm, pypto_moe)
}
