"""Memory that operators keep from call to call."""

from __future__ import annotations

import threading

import numpy as np

from emu.kernels.matmul import matmul
from emu.mc2 import scratch

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)


def test_private_memory_is_kept_for_its_purpose_and_grows():
    first = scratch.private("rows of a test", (3, 4), F16)
    again = scratch.private("rows of a test", (2, 2), F16)
    assert (again.shape, again.dtype) == ((2, 2), F16)
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, scratch.private("rows of a test", (3, 4), F32))
    assert not np.shares_memory(first, scratch.private("other rows of a test", (3, 4), F16))
    larger = scratch.private("rows of a test", (5, 4), F16)
    assert larger.shape == (5, 4)
    assert not np.shares_memory(first, larger)


def test_threads_have_private_memory_of_their_own():
    here = scratch.private("rows of threads", (4,), F16)
    there = []
    thread = threading.Thread(target=lambda: there.append(scratch.private("rows of threads", (4,), F16)))  # fmt: skip
    thread.start()
    thread.join()
    assert not np.shares_memory(here, there[0])


def test_symmetric_memory_is_kept_until_more_is_needed(worlds):
    (world,) = worlds(1, heap_bytes=1 << 20)
    first = scratch.symmetric(world, "partial products", 5000, F16)
    assert first.shape == (5000,)
    assert scratch.symmetric(world, "partial products", 6000, F16).offset == first.offset
    larger = scratch.symmetric(world, "partial products", 20000, F16)
    assert larger.shape == (20000,)
    assert len(world.find_allocs("mc2.partial products")) == 1


def test_a_packed_weight_gives_the_same_product():
    rng = np.random.default_rng(1)
    x, weight = (rng.standard_normal(shape).astype(F16) for shape in ((3, 8), (8, 5)))
    np.testing.assert_array_equal(matmul(x, scratch.packed(weight)), matmul(x, weight))
