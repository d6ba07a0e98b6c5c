"""Measured limits of this machine: the rooflines that benchmarks compare with."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

import numpy as np

from emu.kernels.core.environment import device_model
from emu.kernels.core.messages import shown

_COPIED_BYTES = 1 << 28
_MATRIX = 1024
_REPEATS = 3


@functools.cache
def _gbps() -> float:
    source = np.ones(_COPIED_BYTES, np.uint8)
    target = np.empty_like(source)
    best = min(_seconds(lambda: np.copyto(target, source)) for _ in range(_REPEATS))
    return 2 * _COPIED_BYTES / best * 1e-9


@functools.cache
def _tflops() -> float:
    a = np.ones((_MATRIX, _MATRIX), np.float32)
    out = np.empty_like(a)
    best = min(_seconds(lambda: np.matmul(a, a, out=out)) for _ in range(_REPEATS))
    return 2 * _MATRIX**3 / best * 1e-12


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def get_dram_gbps(device: object = None) -> float:
    """Return the copy bandwidth of one thread, reads and writes together, in GB/s; measured once per process.

    Args:
        device: Ignored: there is one memory.
    """
    return _gbps()


def get_max_simd_tflops(dtype: object, clock_rate: object = None, device: object = None) -> float:
    """Return the rate of NumPy's fp32 matrix product in TFLOP/s; measured once per process.

    Args:
        dtype: Ignored: narrower dtypes are calculated in fp32.
        clock_rate: Ignored.
        device: Ignored.
    """
    return _tflops()


def get_max_tensorcore_tflops(
    dtype: object, clock_rate: object = None, device: object = None
) -> float:
    """Return the same as :func:`get_max_simd_tflops`: the host has one kind of cores."""
    return get_max_simd_tflops(dtype, clock_rate, device)


_PARTS = {"sm": 1410, "graphics": 1410, "mem": 1215, "memory": 1215}
_CLOCKS = {f"clocks.{when}.{part}": part for when in ("max", "current") for part in _PARTS}


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Return what ``nvidia-smi`` says of a GPU: the clocks of the model that is emulated, by default of an A100.

    Args:
        attrs: Names of properties as ``nvidia-smi --query-gpu`` takes them.

    Returns:
        A number for each, in MHz.

    Raises:
        ValueError: One is no clock, and has no number here.
    """
    for name in attrs:
        if name not in _CLOCKS:
            raise ValueError(
                f"attrs must be of {', '.join(map(repr, _CLOCKS))}, but got {shown(name)}"
            )
    model = device_model()
    if model is None:
        return [_PARTS[_CLOCKS[name]] for name in attrs]
    return [
        model.memory_mhz if _CLOCKS[name].startswith("mem") else model.core_mhz for name in attrs
    ]
