"""Barriers of all programs of a grid, in memory that a program gives.

Triton-distributed has them in memory that CUDA provides to a cooperative launch, too, whose address a register of the GPU
holds. Here each takes the memory that its caller hands over beside.
"""

from __future__ import annotations

from typing import Any

from emu import triton
from emu.triton import language as tl
from emu.triton.language.threads import sync_threads


@triton.jit
def barrier_on_this_grid(ptr: Any, use_cooperative: tl.constexpr) -> None:
    """Wait until all programs of the grid have come.

    Args:
        ptr: A word of 32 bits, which is 0 before the first use: its lower half counts who has come, its upper half the
            barriers that are over.
        use_cooperative: Accepted: all programs of a grid that wait run together.
    """
    sync_threads()
    word = ptr.to(tl.pointer_type(tl.uint32))
    count = (tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)).to(tl.uint32)
    before = tl.atomic_add(word, 1, sem="acq_rel")
    if (before & 0xFFFF) + 1 == count:
        tl.atomic_add(word, 0x10000 - count, sem="acq_rel")
    else:
        now = before
        while (now >> 16) == (before >> 16):
            now = tl.atomic_add(word, 0, sem="acquire")
    sync_threads()
