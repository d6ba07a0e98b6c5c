"""Control flow of compiled programs."""

from __future__ import annotations

import pytest
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.ops import Code
from emu.tile.types import I32


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_carried_tiles_are_exchanged_all_at_once(swap: bool, rounds: int) -> None:
    k = Kernel()
    b = k.builder
    first, second = k.load(values(I32, 40, 1)), k.load(values(I32, 40, 2))
    zero, one = k.number(0), k.number(1)
    with b.for_(zero, k.argument(I32, rounds), one, [first, second, first]) as loop:
        x, y, z = loop.carried
        total = b.binary(Code.ADD, x, b.flip(y, 0))
        b.yield_(*((y, x, total) if swap else (total, b.binary(Code.SUB, y, z), x)))
    for result in loop.results:
        k.result(result)
    k.program("exchange").check(run)
