"""Signals of Triton-distributed, and memory as single threads use it."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import pytest

import emu
from emu import triton
from emu.triton import language as tl
from emu.triton.language import distributed as dl
from emu.triton.language.core import extern
from emu.triton.language.threads import thread_index


@triton.jit
def passes_on(data, flags, out, n: tl.constexpr):
    me, n_pes = dl.rank(), dl.num_ranks()
    right = (me + 1) % n_pes
    i = tl.arange(0, n)
    # Items of a queue of one place: even numbers say that it is empty.
    for item in range(3):
        if tl.program_id(0) == 0:
            token = dl.wait(dl.symm_at(flags, right), 1, "sys", "acquire", waitValue=item * 2)
            there = dl.consume_token(dl.symm_at(data, right), token)
            tl.store(there + i, me * 100 + item * 10 + i)
            dl.notify(flags, right, signal=item * 2 + 1, comm_scope="intra_node")
        else:
            token = dl.wait(flags, 1, "sys", "acquire", waitValue=item * 2 + 1)
            here = dl.consume_token(data, token)
            tl.store(out + item * n + i, tl.load(here + i))
            dl.notify(flags, me, signal=item * 2 + 2, comm_scope="intra_node")


def queues() -> list[Any]:
    world = emu.world()
    data = world.alloc(8, np.int32)
    flags = world.alloc(1, np.int64, poison=False)
    out = np.zeros((3, 8), np.int32)
    passes_on[(2,)](data.local, flags.local, out, 8)
    return out.tolist()


@pytest.mark.parametrize("n_pes", [1, 2, 3])
def test_a_queue_between_neighbours(n_pes: int) -> None:
    for me, out in enumerate(emu.launch(queues, n_pes)):
        left = (me - 1) % n_pes
        assert out == [[left * 100 + item * 10 + i for i in range(8)] for item in range(3)]


@triton.jit
def adds(flags, scratch, out):
    me, n_pes = dl.rank(-1), dl.num_ranks(-1)
    for pe in range(n_pes):
        dl.notify(flags + me, pe, signal=me + 1, sig_op="add")
        dl.notify(flags + n_pes, pe, signal=1, sig_op="add")
    dl.wait(flags + n_pes, 1, "gpu", "relaxed", waitValue=n_pes)
    dl.notify(scratch, me, signal=7, comm_scope="gpu")
    dl.notify(scratch, me, signal=3, sig_op="add", comm_scope="gpu")
    dl.wait(scratch, 2, "gpu", "acquire", waitValue=10)
    dl.wait(scratch, 0, "gpu", "acquire", waitValue=99)
    tl.store(out, tl.load(scratch))


def sums() -> list[Any]:
    world = emu.world()
    flags = world.alloc(world.n_pes + 1, np.uint64, poison=False)
    scratch, out = np.array([0, 10]), np.zeros(1, np.int64)
    adds[(1,)](flags.local, scratch, out)
    world.barrier()
    return [*flags.local.tolist(), *out.tolist()]


def test_signals_add_and_memory_of_no_heap_is_signalled_too() -> None:
    assert emu.launch(sums, 3) == [[1, 2, 3, 3, 10]] * 3


@triton.jit
def barrier_of_threads(flags):
    me, n_pes = dl.rank(), dl.num_ranks()
    index = thread_index(0)
    if index < n_pes:
        there = dl.symm_at(flags + me, index)
        while dl.atomic_cas(there, 0, 1, "sys", "release") != 0:
            pass
    if index < n_pes:
        while dl.atomic_cas(flags + index, 1, 0, "sys", "acquire") != 1:
            pass


def meets() -> list[int]:
    world = emu.world()
    flags = world.alloc(world.n_pes, np.int32, poison=False)
    seen = []
    for _ in range(3):
        barrier_of_threads[(1,)](flags.local)
        seen.append(int(flags.local.sum()))
        world.barrier()
    return seen


def test_threads_of_several_pes_meet() -> None:
    assert emu.launch(meets, 3) == [[0, 0, 0]] * 3


@triton.jit
def counts(word, old, out):
    dl.atomic_add(word, 1)
    index = thread_index(0)
    tl.store(old + index, dl.atomic_add(word + 1, 2, "sys", "acq_rel"))
    if index == 5:
        dl.atomic_add(word + 2, 1)
        dl.red_release(word + 2, 1)
        dl.st(out, 3.5)
    dl.red_release(word + 3, 1)
    dl.st(out + 1, dl.ld(out, "sys", "acquire") + 1, "sys", "release")
    dl.st(out + 2, 1077936128)  # bits, as a tensor of 32 bits has them
    dl.st(out + 3, tl.full((), 1077936128, tl.int32))


def test_each_thread_does_an_atomic_operation() -> None:
    word, old, out = np.zeros(4, np.int32), np.zeros(64, np.int32), np.zeros(4, np.float32)
    counts[(1,)](word, old, out, num_warps=2)
    assert word.tolist() == [64, 128, 2, 64]
    assert sorted(old.tolist()) == list(range(0, 128, 2))
    assert out.tolist() == [3.5, 4.5, 1077936128.0, 3.0]


@extern
def team_size(team, _semantic=None):
    table = {(tl.int32,): ("nvshmem_team_n_pes", tl.int32)}
    return dl.extern_call("lib", "", [team], table, is_pure=True, _semantic=_semantic)


@extern
def call(args, types, symbol, result=(), _semantic=None):
    table = {} if symbol.value is None else {tuple(types): (symbol.value, result)}
    return dl.extern_call("lib", "", list(args), table, is_pure=False, _semantic=_semantic)


@triton.jit
def calls(out, flag):
    tl.store(out, team_size(tl.full((), 2, tl.int32)))
    call((), (), "nvshmem_fence")


def calls_by_symbol() -> int:
    out = np.zeros(1, np.int32)
    calls[(1,)](out, out)
    return int(out[0])


def test_functions_of_a_library_are_called_by_symbol() -> None:
    assert emu.launch(calls_by_symbol, 2) == [2, 2]


def _kernel(text: str) -> Any:
    source = f"def kernel(x, flag):\n    {text}\n"
    space: dict[str, Any] = {"tl": tl, "dl": dl, "call": call}
    file = f"<{text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)  # noqa: S102 - the text is ours
    return triton.jit(space["kernel"])


REFUSED = [
    ("dl.rank(0)", "axis must be -1, as the PEs have no grid, but got 0"),
    ("dl.num_ranks(2)", "axis must be -1"),
    ("dl.symm_at(x + tl.arange(0, 4), 0)", "ptr must be a single pointer to symmetric memory"),
    ("dl.wait(3, 1, 'gpu', 'acquire')", "barrierPtrs must be a single pointer to symmetric memory"),
    ("dl.wait(x, 1, 'gpu', 'acquire')", "barrierPtrs must point to integers of 32 or 64 bits"),
    ("dl.wait(flag, 1, 'cta', 'acquire')", "scope must be one of 'gpu', 'sys', but got 'cta'"),
    ("dl.wait(flag, 1, 'gpu', 'release')", "semantic must be one of 'relaxed', 'acquire'"),
    ("dl.wait(flag, 1.5, 'gpu', 'acquire')", "numBarriers must be a single integer, but got 1.5"),
    ("dl.wait(flag, 1, 'gpu', 'acquire', 'one')", "waitValue must be a single integer"),
    ("dl.consume_token(x, 1.0)", r"token must be what wait\(\) returned, but got 1.0"),
    ("dl.notify(x, 0)", "ptr must point to integers of 64 bits"),
    ("dl.notify(flag, 0, sig_op='sub')", "sig_op must be one of 'set', 'add', but got 'sub'"),
    ("dl.notify(flag, 0, comm_scope='rack')", "comm_scope must be one of 'gpu', 'intra_node'"),
    ("dl.notify(flag, 0, signal=0.5, comm_scope='gpu')", "signal must be a single integer"),
    ("dl.ld(3)", "ptr of ld must be a pointer, but got 3"),
    ("dl.ld(x, 'cta')", "scope must be one of 'gpu', 'sys', but got 'cta'"),
    ("dl.st(x, 1, 'gpu', 'acquire')", "semantic must be one of 'relaxed', 'release'"),
    ("dl.atomic_add(5, 1)", "ptr of atomic_add must be a pointer"),
    (
        "dl.atomic_cas(flag, 0, 1, 'gpu', 'weak')",
        "semantic must be one of 'relaxed', 'acquire', 'release'",
    ),
    ("call((x,), (), None)", "args must be no operands, but got 1"),
    ("call((1,), (), 'f')", "args must be 0 operands, but got 1"),
    (
        "call((tl.arange(0, 4),), (tl.int32,), 'f')",
        "args must be scalars, but got",
    ),
    (
        "call((x,), (tl.int32,), 'f')",
        r"the function takes \(int32\), but got \(pointer<fp32>\)",
    ),
    (
        "call((1,), (tl.int32,), 'nvshmem_nothing')",
        "'nvshmem_nothing' of a device library cannot be called: emu does not know it",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_wrong_arguments_are_named(text: str, message: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        _kernel(text)[(1,)](np.zeros(4, np.float32), np.zeros(4, np.int64))
    assert re.search(message, str(caught.value)), caught.value


@triton.jit
def waits_in_vain(flags):
    dl.wait(flags + 1, 1, "gpu", "acquire", waitValue=5)


def hangs() -> None:
    flags = emu.world().alloc(2, np.int64, poison=False)
    waits_in_vain[(1,)](flags.local)


def test_a_wait_in_vain_is_explained() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(hangs, 2, timeout=2)
    text = r"PE 0 waits in kernel waits_in_vain .* for flags\[1\] \(i64 at 0x\w+\) of PE 0"
    assert re.search(text, str(caught.value)), caught.value
