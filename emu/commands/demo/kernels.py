"""The Triton kernels of the tour."""

from __future__ import annotations

from typing import Any

import emu.triton.language as tl
from emu import triton


@triton.jit
def add_kernel(x_ptr: Any, y_ptr: Any, out_ptr: Any, n: Any, BLOCK: tl.constexpr) -> None:
    """Add two vectors."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x_ptr + i, mask=inside) + tl.load(y_ptr + i, mask=inside)
    tl.store(out_ptr + i, total, mask=inside)


@triton.jit
def softmax_kernel(x_ptr: Any, y_ptr: Any, n_columns: Any, BLOCK: tl.constexpr) -> None:
    """Compute the softmax of one row per program."""
    start = tl.program_id(0) * n_columns
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + start + columns, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + start + columns, e / tl.sum(e, axis=0), mask=inside)
