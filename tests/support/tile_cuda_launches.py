"""Runs programs through the CUDA compiler and compares with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.kernels.cuda.device import SIMULATED
from emu.tile.cuda import CudaKernel, compile_kernel

THREADS = 8 if SIMULATED else 128
"""Few in the simulator, where each costs the same; not fewer, so that tiles are spread unevenly."""


def run(program: Any, threads: int = THREADS) -> tuple[CudaKernel, list[Any]]:
    """Run a program on copies of its arrays, and return these, ``None`` for scalars."""
    kernel = compile_kernel(program.module, threads=threads)
    copies: dict[int, Any] = {}
    for given in program.arguments:
        if isinstance(given, np.ndarray):
            copies.setdefault(id(given), given.copy())
    kernel.launch([copies.get(id(a), a) for a in program.arguments], program.grid)
    return kernel, [copies.get(id(a)) for a in program.arguments]


def check(program: Any, threads: int = THREADS) -> CudaKernel:
    """Compare a program's results with the reference's."""
    kernel, got = run(program, threads)
    program.compare(program.run_reference(), got)
    return kernel
