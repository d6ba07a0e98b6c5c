"""What our PEs do for the rows of the mixture of experts: fused operators, and the same one after another."""

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

EXPERTS, CHOICES = 8, 4
Array = np.ndarray[Any, Any]


class Grouped:
    """A rank's rows, an equal number for each expert, and its experts' weights, fp16."""

    def __init__(self, rows: int, depth: int, columns: int) -> None:
        self.world = emu.world()
        ranks = self.world.n_pes
        self.each = rows // (EXPERTS * ranks)
        self.counts = np.full(EXPERTS * ranks, self.each)
        rng = np.random.default_rng(self.world.my_pe)
        self.x = rng.standard_normal((rows, depth)).astype(np.float16)
        self.weight = rng.standard_normal((EXPERTS, depth, columns)).astype(np.float16)
        order = np.arange(rows).reshape(ranks, EXPERTS, self.each)
        self.by_expert = order.swapaxes(0, 1).reshape(-1)
        self.by_rank = np.argsort(self.by_expert)

    def computation(self) -> Array:
        """Multiply alone."""
        return self.multiply(self.x)

    def there(self) -> Array:
        """Do both, fused."""
        from emu.mc2 import alltoallv_gmm

        return alltoallv_gmm(self.x, self.weight, self.counts, self.counts).gmm_y

    def there_unfused(self) -> Array:
        """Exchange, sort, multiply."""
        return self.multiply(self.exchange(self.x)[self.by_expert])

    def back(self) -> Array:
        """Do both, fused."""
        from emu.mc2 import gmm_alltoallv

        return gmm_alltoallv(self.x, self.weight, self.counts, self.counts).y

    def back_unfused(self) -> Array:
        """Multiply, sort, exchange."""
        return self.exchange(self.multiply(self.x)[self.by_rank])

    def multiply(self, rows: Array) -> Array:
        from emu.kernels.matmul import matmul

        out = np.empty((len(rows), self.weight.shape[2]), np.float16)
        height = len(rows) // EXPERTS
        for expert in range(EXPERTS):
            part = slice(expert * height, (expert + 1) * height)
            matmul(rows[part], self.weight[expert], out=out[part])
        return out

    def exchange(self, rows: Array) -> Array:
        from emu.mc2 import Hccl

        out = np.empty_like(rows)
        numbers = [self.each * EXPERTS * rows.shape[1]] * self.world.n_pes
        starts = [pe * numbers[0] for pe in range(self.world.n_pes)]
        with Hccl(self.world) as hccl:
            sent, came = rows.reshape(-1), out.reshape(-1)
            hccl.AlltoAllV(sent, numbers, starts, None, came, numbers, starts, commit=True)
        return out


@functools.cache
def _grouped(rows: int, depth: int, columns: int) -> Grouped:
    made = Grouped(rows, depth, columns)
    for fused, unfused in ((made.there, made.there_unfused), (made.back, made.back_unfused)):
        if fused().tobytes() != unfused().tobytes():
            raise AssertionError("the fused product is wrong")
    return made


def moe_product(way: str, rows: int, depth: int, columns: int, calls: int) -> Span:
    """All PEs do a grouped product; ``way`` is a method of :class:`Grouped`."""
    call: Callable[[], Array] = getattr(_grouped(rows, depth, columns), way)
    emu.world().barrier()
    return timed(call, calls)


@functools.cache
def _layer(tokens: int, depth: int, quant_mode: int) -> dict[str, Callable[[], Any]]:
    from emu.mc2 import moe_distribute_combine, moe_distribute_dispatch

    world = emu.world()
    total = EXPERTS * world.n_pes
    rng = np.random.default_rng(world.my_pe)
    x = rng.standard_normal((tokens, depth)).astype(np.float16)
    ids = rng.integers(0, total, (tokens, CHOICES)).astype(np.int32)
    gates = np.full((tokens, CHOICES), 1 / CHOICES, np.float32)
    sent = moe_distribute_dispatch(x, ids, moe_expert_num=total)
    dispatch = functools.partial(
        moe_distribute_dispatch, x, ids, moe_expert_num=total, quant_mode=quant_mode
    )
    arguments = (sent.expand_x, ids, sent.expand_idx, sent.ep_recv_counts, gates)
    combine = functools.partial(moe_distribute_combine, *arguments, moe_expert_num=total)
    if combine().tobytes() != x.tobytes():  # four quarters of each token
        raise AssertionError("the round trip is wrong")
    return {"dispatch": dispatch, "combine": combine}


def moe_layer(half: str, tokens: int, depth: int, quant_mode: int, calls: int) -> Span:
    """All PEs dispatch their tokens, or combine what came back."""
    call = _layer(tokens, depth, quant_mode)[half]
    emu.world().barrier()
    return timed(call, calls)


TASKS = {f.__name__: f for f in (moe_product, moe_layer)}
