"""What our PEs do in the rows of fused operators: the operator, and its two halves one after the other.

Every operator has four tasks: ``fused``; ``serial``, its communication as one turn and then, or before, its
product as one; and ``communication`` and ``computation`` alone.
"""

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
PARTS = ("fused", "serial", "communication", "computation")


def _operands(m: int, k: int, n: int) -> tuple[Any, Any]:
    """Return this PE's [m, k] in symmetric memory, and [k, n]."""
    world = emu.world()
    rng = np.random.default_rng(world.my_pe)
    left = world.alloc((m, k), np.float16, key=f"mc2 left {m} {k}")
    left.local[...] = rng.standard_normal((m, k)).astype(np.float16)
    return left, rng.standard_normal((k, n)).astype(np.float16)


def _communicate(prepare: Callable[[Any], Any]) -> None:
    from emu.mc2 import Hccl

    with Hccl() as hccl:
        prepare(hccl)


def _all_gather_matmul(m: int, k: int, n: int) -> tuple[Step, Step, Step, Step]:
    from emu.kernels.matmul import matmul
    from emu.mc2 import all_gather_matmul

    world = emu.world()
    left, right = _operands(m, k, n)
    gathered = world.alloc((world.n_pes * m, k), np.float16, key=f"mc2 gathered {m} {k}")
    y = np.empty((world.n_pes * m, n), np.float16)

    def communication() -> None:
        _communicate(lambda hccl: hccl.AllGather(left, gathered, m * k, commit=True))

    def computation() -> None:
        matmul(gathered.local, right, out=y)

    def serial() -> None:
        communication()
        computation()

    def fused() -> None:
        all_gather_matmul(left, right, y=y, gather_out=gathered)

    return fused, serial, communication, computation


def _reducing(scatters: bool, m: int, k: int, n: int) -> tuple[Step, Step, Step, Step]:
    from emu.kernels.matmul import matmul
    from emu.mc2 import matmul_all_reduce, matmul_reduce_scatter

    world = emu.world()
    left, right = _operands(m, k, n)
    rows = m // world.n_pes if scatters else m
    partial = world.alloc((m, n), np.float16, key=f"mc2 partial {m} {n}")
    y = world.alloc((rows, n), np.float16, key=f"mc2 reduced {rows} {n}")

    def prepare(hccl: Any) -> None:
        call = hccl.ReduceScatter if scatters else hccl.AllReduce
        call(partial, y, rows * n, commit=True)

    def communication() -> None:
        _communicate(prepare)

    def computation() -> None:
        matmul(left.local, right, out=partial.local)

    def serial() -> None:
        computation()
        communication()

    def fused() -> None:
        (matmul_reduce_scatter if scatters else matmul_all_reduce)(left, right, y=y)

    return fused, serial, communication, computation


_OPERATORS = {
    "all_gather_matmul": _all_gather_matmul,
    "matmul_reduce_scatter": functools.partial(_reducing, True),
    "matmul_all_reduce": functools.partial(_reducing, False),
}


@functools.cache
def _steps(operator: str, m: int, k: int, n: int) -> tuple[Step, Step, Step, Step]:
    steps = _OPERATORS[operator](m, k, n)
    for step in steps:  # compile, allocate
        step()
    return steps


def _task(operator: str, part: int) -> Callable[..., Span]:
    def run(m: int, k: int, n: int, calls: int) -> Span:
        step = _steps(operator, m, k, n)[part]
        emu.world().barrier()
        return timed(step, calls)

    run.__name__ = f"{operator} {PARTS[part]}"
    return run


TASKS = {
    task.__name__: task
    for operator in _OPERATORS
    for task in (_task(operator, part) for part in range(len(PARTS)))
}
