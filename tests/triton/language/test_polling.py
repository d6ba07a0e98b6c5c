"""``atomic_poll``: it returns at once, after a time, or when another program has written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import on_both

import emu.triton.language as tl
from emu import triton


@triton.jit
def polls(flag, out, wanted, limit):
    tl.store(out, tl.atomic_poll(flag, wanted, sem="relaxed", scope="sys", timeout_ns=limit))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize(("held", "limit"), [(5, 0), (4, 0), (4, 50), (5, 50)])
def test_a_timeout_gives_false(dtype: Any, held: int, limit: int) -> None:
    _, out, *_ = on_both(polls, np.array([held], dtype), np.zeros(1, np.int32), 5, limit)
    assert out[0] == (held == 5)


@triton.jit
def waits(flag, payload, out):
    if tl.program_id(0) == 0:
        tl.store(payload, 42)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        matched = tl.atomic_poll(flag, 1)
        tl.store(out, tl.load(payload) + matched.to(tl.int32))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_wait_ends_when_another_program_has_written(backend: str) -> None:
    flag, payload, out = (np.zeros(1, np.int32) for _ in range(3))
    waits[(2,)](flag, payload, out, backend=backend)
    assert (flag[0], out[0]) == (1, 43)


@triton.jit
def blocks(flag):
    tl.atomic_poll(flag + tl.arange(0, 4), 1)


@triton.jit
def releases(flag):
    tl.atomic_poll(flag, 1, sem="release")


@triton.jit
def negative(flag):
    tl.atomic_poll(flag, 1, timeout_ns=-1)


@pytest.mark.parametrize(
    ("kernel", "dtype", "said"),
    [
        (blocks, np.int32, "must be a single pointer, but got"),
        (
            releases,
            np.int32,
            "sem of atomic_poll must be 'acquire' or 'relaxed', but got 'release'",
        ),
        (negative, np.int32, "timeout_ns must be an int of at least 0, but got -1"),
        (releases, np.float32, "sem of atomic_poll"),
        (negative, np.float32, "needs integers of 16, 32 or 64 bits"),
        (negative, np.int8, "needs integers of 16, 32 or 64 bits"),
    ],
)
def test_what_cannot_be_polled_is_named(kernel: Any, dtype: Any, said: str) -> None:
    with pytest.raises(triton.CompilationError, match=said):
        kernel[(1,)](np.zeros(4, dtype))
