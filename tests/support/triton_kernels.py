"""Small kernels that tests of launches share, and small arrays for tests of the code generator."""

from __future__ import annotations

from typing import Any

import numpy as np

import emu.triton.language as tl
from emu import triton


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    """Copy ``n`` elements."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def place(y_ptr, value):
    """Store a value."""
    tl.store(y_ptr, value)


@triton.jit
def number(y_ptr):
    """Store its program ids as decimal digits, by each program at its own place."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(y_ptr + (z * ny + y) * nx + x, 100 * z + 10 * y + x)


@triton.jit
def tell(y_ptr, value, KNOWN: tl.constexpr):
    """Store a value; the constant makes a kernel of its own."""
    tl.store(y_ptr, value)


def types_of(kernel: Any) -> dict[str, str]:
    """Return the types of a compiled kernel's parameters."""
    return kernel.src.signature


def ints(*values: int) -> np.ndarray[Any, Any]:
    """Return an array of int32."""
    return np.array(values, np.int32)
