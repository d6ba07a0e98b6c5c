"""A kernel whose programs count themselves."""

from __future__ import annotations

import numpy as np
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.ops import Code, Rmw


def counting():
    """A kernel that counts, for each program, how often it ran."""
    k = Kernel()
    b = k.builder
    row = b.binary(Code.MUL, b.program_id(1), b.num_programs(0))
    number = b.binary(Code.ADD, row, b.program_id(0))
    out = k.pointer(np.zeros(1, np.int32))
    b.atomic_rmw(Rmw.ADD, b.ptr_add(out, number), k.number(1))
    b.return_()
    return cpu.compile(k.module)
