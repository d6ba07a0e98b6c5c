"""What our PEs do in the rows of communication from inside kernels."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import emu
import emu.triton.language as tl
from emu import shmem, triton

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

from link import Span, own_core, timed

_turn = 0  # of ping_pong_shmem: the value last sent


@triton.jit
def _puts(dst, src, nbytes, calls):
    for _ in range(calls):
        shmem.put(dst, src, nbytes, 1)


@triton.jit
def _stores(dst, src, calls, n: tl.constexpr):
    i = tl.arange(0, n)
    for _ in range(calls):
        shmem.store(dst + i, tl.load(src + i), 1)


@triton.jit
def _loads(dst, src, calls, n: tl.constexpr):
    i = tl.arange(0, n)
    for _ in range(calls):
        tl.store(dst + i, shmem.load(src + i, 1))


@triton.jit
def _ping_pong(flag, first, turn, calls):
    other = 1 - shmem.my_pe()
    for value in range(turn + 1, turn + calls + 1):
        if first == 1:
            shmem.signal(flag, value, other)
        shmem.wait_until(flag, "eq", value)
        if first == 0:
            shmem.signal(flag, value, other)


@triton.jit
def _all_gather_matmul(
    x,
    gathered,
    flags,
    w,
    y,
    turn,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Program 0 sends; each other one multiplies a block, this PE's own rows first."""
    me, n_pes = shmem.my_pe(), shmem.n_pes()
    number = tl.program_id(0) - 1
    if number < 0:
        size = M * K * (x.dtype.element_ty.primitive_bitwidth // 8)
        for step in range(n_pes):
            peer = (me + step) % n_pes
            shmem.put_signal(gathered + me * M * K, x, size, flags + me, turn, peer)
    else:
        blocks: tl.constexpr = (M // BM) * (N // BN)
        sender = (me + number // blocks) % n_pes
        block = number % blocks
        shmem.wait_until(flags + sender, "ge", turn)
        rows = sender * M + block // (N // BN) * BM + tl.arange(0, BM)
        columns = block % (N // BN) * BN + tl.arange(0, BN)
        total = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            inner = k + tl.arange(0, BK)
            a = tl.load(gathered + rows[:, None] * K + inner[None, :])
            b = tl.load(w + inner[:, None] * N + columns[None, :])
            total = tl.dot(a, b, total, input_precision="ieee")
        tl.store(y + rows[:, None] * N + columns[None, :], total.to(y.dtype.element_ty))


def _target(nbytes: int) -> Any:
    return emu.world().alloc(nbytes // 4, np.float32, key=f"shmem target {nbytes}")


def kernel_put(nbytes: int, calls: int) -> Span | None:
    """PE 0 stores to PE 1 by puts of one kernel."""
    target, data = _target(nbytes), np.ones(nbytes // 4, np.float32)
    if emu.world().my_pe:
        return None
    _puts[(1,)](target.local, data, nbytes, 1)
    return timed(lambda: _puts[(1,)](target.local, data, nbytes, calls), 1)


def kernel_store(nbytes: int, calls: int) -> Span | None:
    """PE 0 stores tiles to PE 1 in one kernel."""
    target, data = _target(nbytes), np.ones(nbytes // 4, np.float32)
    if emu.world().my_pe:
        return None
    _stores[(1,)](target.local, data, 1, nbytes // 4)
    return timed(lambda: _stores[(1,)](target.local, data, calls, nbytes // 4), 1)


def kernel_load(nbytes: int, calls: int) -> Span | None:
    """PE 0 loads tiles from PE 1 in one kernel."""
    source, out = _target(nbytes), np.empty(nbytes // 4, np.float32)
    if emu.world().my_pe:
        return None
    _loads[(1,)](out, source.local, 1, nbytes // 4)
    return timed(lambda: _loads[(1,)](out, source.local, calls, nbytes // 4), 1)


def host_put(nbytes: int, calls: int) -> Span | None:
    """PE 0 stores to PE 1 from Python."""
    world, target, data = emu.world(), _target(nbytes), np.ones(nbytes // 4, np.float32)
    return None if world.my_pe else timed(functools.partial(world.put, target, data, 1), calls)


def host_get(nbytes: int, calls: int) -> Span | None:
    """PE 0 fetches from PE 1 from Python."""
    world, source, out = emu.world(), _target(nbytes), np.empty(nbytes // 4, np.float32)
    return None if world.my_pe else timed(lambda: world.get(source, 1, out=out), calls)


def ping_pong_shmem(calls: int, pinned: int) -> Span:
    """PEs 0 and 1 send ``calls`` signals each way from programs of a Triton kernel."""
    global _turn
    world = emu.world()
    word = world.alloc(1, np.int64, key="ping of shmem", poison=False)
    first = int(world.my_pe == 0)
    with own_core(world.my_pe, pinned):
        world.barrier()
        turn, _turn = _turn, _turn + calls
        return timed(lambda: _ping_pong[(1,)](word.local, first, turn, calls), 1)


@functools.cache
def _fused(m: int, k: int, n: int, half: int) -> Callable[[], Any]:
    world = emu.world()
    dtype = np.float16 if half else np.float32
    rng = np.random.default_rng(world.my_pe)
    x = rng.standard_normal((m, k)).astype(dtype)
    w = rng.standard_normal((k, n)).astype(dtype)
    y = np.empty((world.n_pes * m, n), dtype)
    gathered = world.alloc((world.n_pes * m, k), dtype, key=f"shmem gathered {m} {k} {half}")
    flags = world.alloc(world.n_pes, np.int64, key=f"shmem flags {m} {k} {half}", poison=False)
    block = (128, 128, 64)
    grid = (1 + world.n_pes * (m // block[0]) * (n // block[1]),)
    turn = 0

    def step() -> None:
        nonlocal turn
        turn += 1
        _all_gather_matmul[grid](x, gathered.local, flags.local, w, y, turn, m, n, k, *block)
        world.barrier()  # nobody reads what the next step overwrites

    step()
    whole = world.all_gather(x).reshape(-1, k).astype(np.float32)
    np.testing.assert_allclose(y, whole @ w.astype(np.float32), rtol=2e-2, atol=0.5)
    return step


def shmem_all_gather_matmul(m: int, k: int, n: int, half: int, calls: int) -> Span:
    """All-gather and product as one kernel."""
    step = _fused(m, k, n, half)
    emu.world().barrier()
    return timed(step, calls)


TASKS = {
    f.__name__: f
    for f in (
        kernel_put,
        kernel_store,
        kernel_load,
        host_put,
        host_get,
        ping_pong_shmem,
        shmem_all_gather_matmul,
    )
}
