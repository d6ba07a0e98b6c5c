"""Values from memory that a loop waits for."""

from __future__ import annotations

import numpy as np
from tile_cpu_runner import pack
from tile_harness import Kernel

from emu.tile import cpu
from emu.tile.ops import Code
from emu.tile.types import I32


def test_what_a_loop_waits_for_is_found_through_tiles_branches_and_carried_values():
    k = Kernel()
    b = k.builder
    flags = k.pointer(np.zeros(1, np.int32))

    def missing(_):
        tile = b.load(b.ptr_add(b.splat(flags, (8,)), b.arange(0, 8)))
        (total,) = b.reduce([tile], 0, lambda x, y: [b.binary(Code.ADD, x, y)])
        return [b.compare(Code.LT, total, k.number(8)), total]

    b.while_([k.number(0)], k.region(missing, I32), k.region(lambda v: [v], I32))

    def again(done):
        return [b.compare(Code.EQ, done, k.number(0)), done]

    b.while_([k.number(0)], k.region(again, I32), k.region(lambda _: [b.load(flags)], I32))
    b.return_()
    kernel = cpu.compile(k.module)
    assert [[read.by_address for read in loop.reads] for loop in kernel.loops] == [[False], [True]]
    flags = np.ones(8, np.int32)
    address, alive = pack(kernel, [flags.ctypes.data])
    kernel.launch(address)
    assert alive
