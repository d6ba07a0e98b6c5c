"""Random kernels behind a wait whose tiles come in a random order, beside the same kernels behind none."""

from __future__ import annotations

import random

import numpy as np
import pytest
from campaigns import shares
from pypto_random_kernels import Program, as_laid_out

import emu
from emu import pypto
from emu.comm.ops import AtomicOp
from emu.pypto import distributed as dist
from emu.pypto import operation
from emu.pypto.context import CONTEXT

UNKNOWN = {np.dtype(name) for name in ("float64", "uint8", "int8")}
"""Dtypes that symmetric memory does not have."""


def _begin(program: Program, rng: random.Random):
    """Return a function for the begin of a kernel, which puts a tensor behind a wait, and what signals its tiles."""
    tile = [rng.randrange(1, n + 1) for n in program.shape]

    def hold(x):
        memory = dist.create_shmem_tensor("world", 1, x.dtype, list(x.shape))
        pypto.set_vec_tile_shapes(*tile)
        dist.shmem_put(x, [0] * len(x.shape), memory, 0)
        arrived = dist.shmem_wait_until(memory, 0, 1)
        words, count = memory.slots(None, None, "test")
        return dist.shmem_get(memory, 0, pred=[arrived]), memory.memory, words, count

    def signal(memory, words, count):
        """Signal one tile after the other, and run what that lets run."""
        graph = CONTEXT.graph
        for number in rng.sample(range(count), count):
            memory.group.signal_op(words, 1, 0, op=AtomicOp.SET, index=number)
            if rng.random() < 0.8:
                graph._poll()
                while graph._ready and rng.random() < 0.9:
                    graph._run(graph._draw())

    return hold, signal


def _run(seed: int, backend: str, order: int | None) -> list[np.ndarray]:
    program, rng = Program(seed), random.Random(order)
    arguments = [as_laid_out(x, x) for x in program.arguments]
    hold, signal = _begin(program, rng)

    @pypto.frontend.jit
    def kernel(*args):
        if order is None:
            program.kernel(*args)
            return
        held, *slots = hold(args[0])
        program.kernel(held, *args[1:])
        signal(*slots)

    with pypto.set_options(backend=backend):
        kernel(*arguments)
    return arguments


def _check(seeds: range) -> int:
    operation.LEAST_ELEMENTS = 1
    divided = 0
    for seed in seeds:
        program = Program(seed)
        if len(program.shape) < 2 or np.dtype(program.dtype) in UNKNOWN:
            continue
        wanted = _run(seed, "reference", None)
        for order in range(3):
            for backend in ("native", "reference"):
                found = _run(seed, backend, order)
                for x, y in zip(found[1:], wanted[1:], strict=True):
                    np.testing.assert_array_equal(
                        x.astype(np.float64),
                        y.astype(np.float64),
                        err_msg=f"seed {seed} {backend} order {order}",
                    )
        divided += 1
    return divided


def test_random_kernels_have_the_same_bits_in_whatever_order_tiles_come():
    (count,) = emu.launch(_check, 1, args=(range(8),), timeout=120)
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(3))
def test_many_random_kernels_have_the_same_bits_in_whatever_order_tiles_come(share):
    first = 20_000 * (share + 1)
    (count,) = emu.launch(_check, 1, args=(range(first, first + 25),), timeout=300)
    assert count
