"""Kernels that are long chains of operations, which take deep recursion to compile."""

from __future__ import annotations

import numpy as np
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile.ops import Code


def chain(length, constant=1):
    """A kernel that adds a number ``length`` times: what it computes depends on a chain as long."""
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    value = b.load(out)
    for n in range(length):
        code = Code.ADD if n % 2 else Code.XOR  # not to be folded into one
        value = b.binary(code, value, k.number(constant))
    b.store(out, value)
    b.return_()
    return k.module


def expected(length, constant=1):
    value = 0
    for n in range(length):
        value = value + constant if n % 2 else value ^ constant
    return value


def result(kernel):
    out = np.zeros(1, np.int32)
    address, alive = pack(kernel, [out.ctypes.data])
    kernel.launch(address)
    assert alive
    return int(out[0])
