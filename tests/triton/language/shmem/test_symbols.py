"""Device libraries' symbols: kernels that call NVSHMEM's and rocSHMEM's functions through ``extern_elementwise``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import emu
import emu.triton.language as tl
from emu import triton
from emu.triton.language import core
from emu.triton.language.shmem.symbols import find_symbol

I32, I64, U64 = core.int32, core.int64, core.uint64


@core.extern
def call(symbol, types, args, _semantic=None):
    """Call a symbol as programs do; what they declare is the dtype of each argument, and int32."""
    kinds = tuple(t.value if hasattr(t, "value") else t for t in types)
    table = {kinds: (symbol.value, core.int32)}
    return core.extern_elementwise("", "", list(args), table, is_pure=False, _semantic=_semantic)


@triton.jit
def nvshmem(inbox, out, flag, seen, n: tl.constexpr):
    me = call("nvshmem_my_pe", (), ())
    n_pes = call("nvshmem_n_pes", (), ())
    right = (me + 1) % n_pes
    there, here = inbox.to(tl.int64), out.to(tl.int64)
    word = flag.to(tl.int64)
    size = tl.full((), n * 4, tl.int64)
    one = tl.full((), 1, tl.uint64)
    call(
        "nvshmemx_putmem_signal_block",
        (I64, I64, I64, I64, U64, I32, I32),
        (there, here, size, word, one, 9, right),
    )
    call("nvshmem_signal_wait_until", (I64, I32, U64), (word, 5, one))
    call("nvshmem_fence", (), ())
    call("nvshmem_quiet", (), ())
    call("nvshmemx_barrier_all_block", (), ())
    call("nvshmemx_getmem_nbi_block", (I64, I64, I64, I32), (seen.to(tl.int64), there, size, right))
    call(
        "nvshmemx_signal_op", (I64, I64, I32, I32), (word + 8, tl.full((), 2, tl.int64), 10, right)
    )
    call("nvshmemx_signal_op", (I64, I64, I32, I32), (word + 8, tl.full((), 3, tl.int64), 5, right))
    call("nvshmem_uint64_wait_until", (I64, I32, U64), (word + 8, 0, tl.full((), 5, tl.uint64)))
    call("nvshmem_sync_all", (), ())


@triton.jit
def rocshmem(inbox, out, flag, seen, n: tl.constexpr):
    me = call("rocshmem_my_pe", (), ())
    n_pes = call("rocshmem_n_pes", (), ())
    right = (me + 1) % n_pes
    there, here = inbox.to(tl.int64), out.to(tl.int64)
    word = flag.to(tl.int64)
    size = tl.full((), n * 4, tl.int64)
    call("rocshmem_putmem_wg", (I64, I64, I64, I32), (there, here, size, right))
    call("rocshmem_barrier_all_wg", (), ())
    call("rocshmem_getmem_wg", (I64, I64, I64, I32), (seen.to(tl.int64), there, size, right))
    call(
        "rocshmem_putmem_signal_wg",
        (I64, I64, I64, I64, U64, I32, I32),
        (there, here, size, word, tl.full((), 1, tl.uint64), 1, right),
    )
    call("rocshmem_uint64_wait_until", (I64, I32, U64), (word, 3, tl.full((), 1, tl.uint64)))
    call("rocshmem_fence", (), ())
    call(
        "rocshmem_putmem_signal_wg",
        (I64, I64, I64, I64, U64, I32, I32),
        (there, here, size, word + 8, tl.full((), 5, tl.uint64), 0, right),
    )
    call("rocshmem_uint64_wait_until", (I64, I32, U64), (word + 8, 0, tl.full((), 5, tl.uint64)))
    call("rocshmem_int_wait_until", (I64, I32, I32), (word + 8, 4, 6))
    call("rocshmem_int_wait_until", (I64, I32, I32), (word + 8, 0, 5))
    call("rocshmem_sync_all_wg", (), ())


def runs(kernel: Any) -> tuple[Any, ...]:
    world = emu.world()
    n = 8
    inbox, flag = world.alloc(n, np.float32), world.alloc(2, np.uint64, poison=False)
    out = np.arange(n, dtype=np.float32) + 10 * world.my_pe
    seen = np.zeros(n, np.float32)
    kernel[(1,)](inbox.local, out, flag.local, seen, n)
    return inbox.local.tolist(), seen.tolist(), flag.local.tolist()


def runs_nvshmem() -> tuple[Any, ...]:
    return runs(nvshmem)


def runs_rocshmem() -> tuple[Any, ...]:
    return runs(rocshmem)


@pytest.mark.parametrize("program", [runs_nvshmem, runs_rocshmem])
@pytest.mark.parametrize("n_pes", [1, 2, 3])
def test_point_to_point(program: Any, n_pes: int) -> None:
    for me, (inbox, seen, flag) in enumerate(emu.launch(program, n_pes)):
        assert inbox == [(me - 1) % n_pes * 10 + i for i in range(8)]
        assert seen == [me * 10 + i for i in range(8)]
        assert flag == [1, 5]


@triton.jit
def collectives(dst, src, sums):
    size = tl.full((), 8, tl.int64)
    two = tl.full((), 2, tl.int64)
    there, here, total = dst.to(tl.int64), src.to(tl.int64), sums.to(tl.int64)
    mem = (I32, I64, I64, I64)
    call("nvshmemx_alltoallmem_block", mem, (0, there, here, size))
    call("nvshmem_float_sum_reduce", mem, (0, total, here, two))
    call("nvshmemx_float_max_reduce_block", mem, (0, total + 8, here, two))
    root = call("nvshmem_n_pes", (), ()) - 1
    call("nvshmemx_broadcastmem_block", (*mem, I32), (0, total + 16, here, size, root))


def collects() -> tuple[Any, ...]:
    world = emu.world()
    n = world.n_pes
    dst, src, sums = (world.alloc(k, np.float32) for k in (2 * n, 2 * n, 6))
    src.local[:] = np.arange(2 * n) + 10 * world.my_pe
    world.barrier()
    collectives[(1,)](dst.local, src.local, sums.local)
    return dst.local.tolist(), sums.local.tolist()


@pytest.mark.parametrize("n_pes", [1, 3])
def test_collectives(n_pes: int) -> None:
    tens = sum(10 * pe for pe in range(n_pes))
    for me, (dst, sums) in enumerate(emu.launch(collects, n_pes)):
        assert dst == [10 * pe + 2 * me + i for pe in range(n_pes) for i in range(2)]
        last = 10 * (n_pes - 1)
        assert sums == [tens, tens + n_pes, last, last + 1, last, last + 1]


@triton.jit
def wrong_comparison(flag):
    call(
        "nvshmem_signal_wait_until",
        (I64, I32, U64),
        (flag.to(tl.int64), 6, tl.full((), 1, tl.uint64)),
    )


def compares_wrongly() -> str:
    flag = emu.world().alloc(1, np.uint64, poison=False)
    with pytest.raises(AssertionError) as caught:
        wrong_comparison[(1,)](flag.local)
    return str(caught.value)


def test_a_comparison_that_there_is_not() -> None:
    (said,) = emu.launch(compares_wrongly, 1)
    assert "cmp must be one of 0, 1, 2, 3, 4, 5" in said
    assert "cmp = 6" in said


@triton.jit
def too_few(out):
    tl.store(out, call("nvshmem_fence", (I32,), (1,)))


def test_a_wrong_number_of_operands_is_told() -> None:
    with pytest.raises(Exception, match="'nvshmem_fence' takes 0 operands, but got 1"):
        too_few[(1,)](np.zeros(1, np.int32))


def test_symbols_that_there_are_not() -> None:
    assert find_symbol("nvshmem_half_sum_reduce") is not None
    for symbol in ("nvshmem_quaternion_sum_reduce", "nvshmem_frobnicate", "shmem_quiet", "sinf"):
        assert find_symbol(symbol) is None
