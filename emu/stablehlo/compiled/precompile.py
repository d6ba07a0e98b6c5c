"""Calls of the kernels behind compiled programs, so that their code is on disk before the first program."""

from __future__ import annotations

import numpy as np

from emu.stablehlo.compiled.indexing import compile_scatters
from emu.stablehlo.compiled.random_bits import compile_generators


def precompile() -> None:
    """Compile scatters of float32 and int32, those that only set of any dtype, and the generators of random bits.

    Products and conversions are kernels of :mod:`emu.kernels`; element-wise chains belong to their programs.
    """
    compile_scatters((np.dtype(np.float32), np.dtype(np.int32)))
    compile_generators()
