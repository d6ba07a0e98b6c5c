"""Matrix products beside OpenBLAS (through NumPy) and torch, with as many threads on both sides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel

SIZES = (256, 512, 1024, 2048)
_SETTLE_S = 0.2
"""OpenBLAS's threads go on spinning for about a tenth of a second, GNU OpenMP's for some milliseconds."""

NATIVE_SIZES = SIZES
TORCH_SIZES = (256, 512, 1024)  # without a bf16 unit torch takes 20 s for 2048


def operands(size: int, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(size)
    if dtype == np.int8:
        a, b = (rng.integers(-128, 128, (size, size), np.int8) for _ in range(2))
    else:
        a, b = (rng.standard_normal((size, size), np.float32).astype(dtype) for _ in range(2))
    return a, b


def ours(size: int, dtype: Any, threads: int, precision: str = "exact") -> Callable[[], object]:
    from emu.kernels.matmul import matmul

    a, b = operands(size, dtype)
    out = matmul(a, b, threads=threads, precision=precision)
    return partial(matmul, a, b, out=out, threads=threads, precision=precision)


def _bfloat16() -> Any:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


DTYPES: dict[str, Callable[[], Any]] = {
    "fp32": lambda: np.dtype(np.float32),
    "fp64": lambda: np.dtype(np.float64),
    "fp16": lambda: np.dtype(np.float16),
    "bf16": _bfloat16,
    "int8": lambda: np.dtype(np.int8),
}


@contextlib.contextmanager
def library_threads(threads: int) -> Iterator[None]:
    """Let OpenBLAS use so many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=threads, user_api="blas"):
        yield


def _openblas(settings: Settings, name: str, size: int, threads: int) -> Outcome:
    a, b = operands(size, DTYPES[name]())
    out = np.empty_like(a)
    with library_threads(threads):
        theirs = clock(lambda: np.matmul(a, b, out=out))
        settle_s = _SETTLE_S if threads > 1 else 0.0
        return duel(settings, clock(ours(size, a.dtype, threads)), theirs, settle_s=settle_s)


def _fp32(settings: Settings, name: str, size: int) -> Outcome:
    mine = clock(ours(size, DTYPES[name](), 1))
    return duel(settings, mine, clock(ours(size, np.dtype(np.float32), 1)))


def _torch(
    settings: Settings, name: str, size: int, threads: int = 1, precision: str = "exact"
) -> Outcome:
    mine = clock(ours(size, DTYPES[name](), threads, precision))
    try:
        import torch
    except ImportError:
        return duel(settings, mine, None, "torch is not installed")
    if name == "int8":
        a, b = (torch.from_numpy(x) for x in operands(size, np.dtype(np.int8)))
        theirs = partial(torch._int_mm, a, b, out=torch.empty((size, size), dtype=torch.int32))
    else:
        kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[name]
        a, b = (torch.from_numpy(x).to(kind) for x in operands(size, np.dtype(np.float32)))
        theirs = partial(torch.mm, a, b, out=torch.empty_like(a))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        settle_s = _SETTLE_S if threads > 1 else 0.0
        return duel(settings, mine, clock(theirs), settle_s=settle_s)
    finally:
        torch.set_num_threads(before)


def has_bf16_unit() -> bool:
    """Return whether the CPU has an instruction for bf16."""
    from emu.kernels.gemm.microkernel import cpu_features

    return not cpu_features().isdisjoint({"avx512bf16", "amx-bf16", "bf16"})


def _torch_goal() -> Goal:
    """40 times where torch has no instruction for 16-bit types; elsewhere it is another contest."""
    return Goal() if has_bf16_unit() else Goal(ratio=40)


def _rows() -> list[Bench]:
    rows = []
    for size in SIZES:
        for threads in (1, 2):
            run = partial(_openblas, name="fp32", size=size, threads=threads)
            label = f"matmul/fp32 {size}, {threads} thread{'s' * (threads > 1)}"
            rows.append(Bench(label, "OpenBLAS", "ms", Goal(ratio=0.95), run))
    run = partial(_openblas, name="fp64", size=1024, threads=1)
    rows.append(Bench("matmul/fp64 1024, 1 thread", "OpenBLAS", "ms", Goal(ratio=0.95), run))
    for name in ("bf16", "fp16", "int8"):
        goal = Goal(ratio=1.0 if name == "int8" else 0.95)
        for size in SIZES:
            run = partial(_fp32, name=name, size=size)
            rows.append(Bench(f"matmul/{name} {size}", "our fp32", "ms", goal, run))
    for name in ("bf16", "fp16"):
        for size in TORCH_SIZES:
            run = partial(_torch, name=name, size=size)
            rows.append(Bench(f"matmul/{name} {size}", "torch", "ms", _torch_goal(), run))
    for size in NATIVE_SIZES if has_bf16_unit() else ():
        for threads in (1, 2):
            run = partial(_torch, name="bf16", size=size, threads=threads, precision="native")
            label = f"matmul/bf16 native {size}, {threads} thread{'s' * (threads > 1)}"
            rows.append(Bench(label, "torch", "ms", Goal(ratio=0.95), run))
    for size in SIZES:
        for threads in (1, 2):
            run = partial(_torch, name="int8", size=size, threads=threads)
            label = f"matmul/int8 {size}, {threads} thread{'s' * (threads > 1)}"
            rows.append(Bench(label, "torch", "ms", Goal(ratio=0.95), run))
    return rows


ROWS = _rows()
