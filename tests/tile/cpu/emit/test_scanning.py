"""Scans along any axis, in both directions, of one or two tiles: what the reference gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import I32


@settings(deadline=None, max_examples=25)
@given(
    shape=st.sampled_from(
        [(1,), (5,), (32,), (96,), (33,), (4, 64), (64, 4), (3, 1, 5), (2, 8, 32)]
    ),
    axis=st.integers(0, 2),
    reverse=st.booleans(),
    broadcast=st.booleans(),
    seed=st.integers(0, 9),
)
def test_scans_are_those_of_the_reference(
    shape: tuple[int, ...], axis: int, reverse: bool, broadcast: bool, seed: int
) -> None:
    k = Kernel()
    b = k.builder
    chance = np.random.default_rng(seed)
    axis = min(axis, len(shape) - 1)
    first = k.load(chance.integers(-99, 99, shape).astype(np.int32))
    second = k.load(chance.integers(-3, 3, shape).astype(np.int32))
    if broadcast:  # one row for all, read with stride 0
        line = (*shape[:-1], 1)
        second = b.broadcast(k.load(chance.integers(-3, 3, line).astype(np.int32)), shape)

    def composed(f: Value, g: Value, p: Value, q: Value) -> list[Value]:
        """Two linear maps, one behind the other: order matters."""
        product = b.binary(Code.MUL, g, q)
        return [b.binary(Code.ADD, b.binary(Code.MUL, f, q), p), product]

    for result in b.scan([first, second], axis, composed, reverse):
        assert result.dtype == I32
        k.result(result)
    k.program("scan").check(run)
