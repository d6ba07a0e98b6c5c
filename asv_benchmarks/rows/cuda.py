"""The CUDA kernels against the device's own copy, and against cuBLAS; no numbers without a GPU."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rows.measure import Bench, Clock, Goal, Outcome, Settings, duel

NO_DEVICE = "no CUDA device"


def _on_device(call: Callable[[], object]) -> Clock:
    """Return a clock of ``call``: it ends when the device has done the last one."""
    from numba import cuda

    def seconds(calls: int) -> float:
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        cuda.synchronize()
        return time.perf_counter() - start

    return seconds


def _device_is_there() -> bool:
    from numba import cuda

    from emu.kernels.cuda.device import SIMULATED

    return not SIMULATED and cuda.is_available()


def _copy(nbytes: int) -> Clock:
    """Copy from device to device by the driver: what moves as many bytes as fast as it can."""
    from emu.kernels.cuda import arrays

    source, target = (arrays.empty(nbytes, np.uint8).bits for _ in range(2))
    return _on_device(lambda: target.copy_to_device(source))


def _set(shape: tuple[int, int], room: tuple[int, int], dtype: str, settings: Settings) -> Outcome:
    if not _device_is_there():
        return Outcome(note=NO_DEVICE)
    from emu.kernels.cuda import arrays, tiles

    source, target = arrays.empty(shape, dtype), arrays.empty(room, dtype)
    place = target[: shape[0], : shape[1]]
    nbytes = source.size * source.itemsize
    return duel(settings, _on_device(lambda: tiles.set_tile(place, source)), _copy(nbytes))


def _scatter(settings: Settings) -> Outcome:
    """Return a step of a key/value cache: 3 bytes move per element, 2 in and 1 out."""
    if not _device_is_there():
        return Outcome(note=NO_DEVICE)
    import ml_dtypes

    from emu.kernels.cuda import arrays, quant

    batches, heads, length, step, width = 64, 16, 2048, 512, 128
    target = arrays.to_device(np.zeros((batches, heads, length, width), np.int8))
    values = np.random.default_rng(0).normal(size=(batches, heads, step, width))
    updates = arrays.to_device(values.astype(ml_dtypes.bfloat16))
    scales, zeros = (arrays.to_device(np.ones(width, ml_dtypes.bfloat16)) for _ in range(2))
    indices = arrays.to_device(np.arange(batches, dtype=np.int32) * 16)

    def scatter() -> None:
        quant.quant_scatter(target, indices, updates, scales, zeros)

    # A copy of n bytes reads and writes n: it moves 2 n.
    return duel(settings, _on_device(scatter), _copy(values.size * 3 // 2))


def _peer_product(n: int, a: np.ndarray[Any, Any]) -> Clock | str:
    """cuBLAS, by whichever library is there, without TF32; or why there is none."""
    try:
        import cupy
    except ImportError:
        pass
    else:
        left = cupy.asarray(a)
        result = cupy.empty((n, n), np.float32)
        return _on_device(lambda: cupy.matmul(left, left, out=result))
    try:
        import torch
    except ImportError:
        return "neither cupy nor torch is installed"
    if not torch.cuda.is_available():
        return "torch is installed without CUDA"
    torch.backends.cuda.matmul.allow_tf32 = False
    theirs = torch.from_numpy(a).cuda()
    out = torch.empty_like(theirs)

    def seconds(calls: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            torch.mm(theirs, theirs, out=out)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    return seconds


def _product(n: int, settings: Settings) -> Outcome:
    if not _device_is_there():
        return Outcome(note=NO_DEVICE)
    from emu.kernels.cuda import arrays, matmul

    a = np.random.default_rng(0).normal(size=(n, n)).astype(np.float32)
    left, out = arrays.to_device(a), arrays.empty((n, n), np.float32)
    ours = _on_device(lambda: matmul.matmul(left, left, out=out))
    theirs = _peer_product(n, a)
    if isinstance(theirs, str):
        return duel(settings, ours, None, theirs)
    return duel(settings, ours, theirs)


ROWS = [
    *(
        Bench(
            f"cuda/set {name}", "device copy", "us", Goal(0.85), functools.partial(_set, *arguments)
        )
        for name, arguments in {
            "64 MiB dense": ((4096, 4096), (4096, 4096), "float32"),
            "64 MiB rectangle": ((4096, 4096), (4096, 6144), "float32"),
            "1 MiB rectangle": ((512, 512), (512, 1024), "float32"),
        }.items()
    ),
    Bench("cuda/quant_scatter bf16", "device copy of as many bytes", "us", Goal(0.85), _scatter),
    *(
        Bench(f"cuda/matmul fp32 {n}", "cuBLAS", "us", Goal(), functools.partial(_product, n))
        for n in (1024, 4096)
    ),
]
