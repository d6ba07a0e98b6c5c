"""Dead code is dropped, and nothing else."""

from __future__ import annotations

import numpy as np
from tile_harness import Kernel, values
from tile_passes import count, operations

from emu.tile.ops import Code
from emu.tile.passes import (
    DeadCode,
)
from emu.tile.types import F32, I1, I32
from emu.tile.verify import verify


def test_what_nobody_uses_is_dropped() -> None:
    k = Kernel()
    b = k.builder
    x = k.load(values(F32, 8))
    b.unary(Code.EXP, x)
    with b.for_(k.number(0), k.number(3), k.number(1), [x]) as loop:
        b.yield_(b.unary(Code.NEG, loop.carried[0]))
    b.if_(k.number(1, I1), k.region(lambda: [x]), k.region(lambda: [x]))
    b.reduce([x], 0, lambda a, c: [b.binary(Code.ADD, a, c)])
    k.function("unused", list)
    assert operations(k, DeadCode()) == {Code.RETURN: 1}


def test_effects_are_kept_with_what_surrounds_them() -> None:
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    with b.for_(k.number(0), k.number(3), k.number(1), []) as loop:
        region = k.region(lambda: [b.store(out, loop.index)][:0])
        b.if_(b.compare(Code.LT, loop.index, k.number(2)), region, k.region(list))
        b.yield_()
    left = operations(k, DeadCode())
    assert (left[Code.FOR], left[Code.IF], left[Code.STORE], left[Code.LT]) == (1, 1, 1, 1)


def test_carried_values_that_only_feed_themselves_are_dropped() -> None:
    k = Kernel()
    b = k.builder
    carried = [k.number(n) for n in range(4)]
    with b.for_(k.number(0), k.argument(I32, 3), k.number(1), carried) as loop:
        first, second, third, fourth = loop.carried
        b.yield_(second, first, b.unary(Code.NEG, third), fourth)
    k.result(loop.results[0])
    module = DeadCode().apply(k.program("p").module)
    verify(module)
    (loop_,) = (o for o in module.kernel.body.operations if o.code is Code.FOR)
    assert len(loop_.results) == 2
    assert count(module)[Code.NEG] == 0


def test_unused_results_of_branches_are_dropped() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 1)
    then = k.region(lambda: [b.unary(Code.NEG, x), b.unary(Code.NOT, x)])
    results = b.if_(k.argument(I1, 1), then, k.region(lambda: [x, x]))
    k.result(results[1])
    left = operations(k, DeadCode())
    assert (left[Code.NEG], left[Code.NOT]) == (0, 1)


def test_loops_that_may_wait_for_others_are_kept() -> None:
    k = Kernel()
    b = k.builder
    flag = k.pointer(np.ones(1, np.int32))
    before = k.region(lambda: [b.compare(Code.EQ, b.load(flag), k.number(0))])
    b.while_([], before, k.region(list))
    left = operations(k, DeadCode())
    assert (left[Code.WHILE], left[Code.LOAD]) == (1, 1)
