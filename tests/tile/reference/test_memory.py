"""Memory of programs in the reference: masks, order of lanes, bits."""

from __future__ import annotations

import math

import numpy as np
from tile_evaluation import same
from tile_harness import Kernel

from emu.tile.ops import Rmw
from emu.tile.types import (
    DTYPES,
    F32,
    I1,
)

NAN, INF = math.nan, math.inf


def test_masked_lanes_touch_no_memory() -> None:
    k = Kernel()
    b = k.builder
    wild = b.cast(
        k.load(np.array([8, 2**62, 2**63 - 1], np.int64)), k.pointer(np.ones(1, np.float32)).type
    )
    k.result(b.load(wild, k.number(0, I1, (3,)), k.number(7, F32, (3,))))
    k.result(b.load(wild, k.number(0, I1, (3,))))
    b.store(wild, k.number(7, F32, (3,)), k.number(0, I1, (3,)))
    *_, other, zero = k.program("p").run_reference()
    same(other, [7, 7, 7])
    same(zero, [0, 0, 0])


def test_the_last_lane_is_kept_and_atomics_see_those_before() -> None:
    k = Kernel()
    b = k.builder
    kept, counted = np.zeros(2, np.int32), np.zeros(2, np.int32)
    index = k.load(np.array([0, 0, 1, 0], np.int32))
    b.store(b.ptr_add(b.splat(k.pointer(kept), (4,)), index), b.arange(5, 9))
    places = b.ptr_add(b.splat(k.pointer(counted), (4,)), index)
    k.result(b.atomic_rmw(Rmw.ADD, places, b.arange(1, 5)))
    _, first, second, old = k.program("p").run_reference()
    assert first.tolist() == [8, 7]
    assert second.tolist() == [7, 3]
    assert old.tolist() == [0, 1, 0, 3]


def test_floats_are_compared_and_swapped_by_their_bits() -> None:
    k = Kernel()
    x = np.array([0.0, -0.0, NAN], np.float32)
    k.builder.atomic_cas(
        k.addresses(k.pointer(x), (3,)),
        k.load(np.array([-0.0, -0.0, NAN], np.float32)),
        k.number(1, F32, (3,)),
    )
    same(k.program("p").run_reference()[0], [0.0, 1.0, 1.0])


def test_every_dtype_is_loaded_and_stored_bit_by_bit() -> None:
    for dtype in DTYPES.values():
        if dtype == I1:
            continue
        bits = np.arange(256 * dtype.bytes, dtype=np.uint8)
        k = Kernel()
        k.result(k.load(bits.view(dtype.numpy)))
        assert k.program("p").run_reference()[-1].tobytes() == bits.tobytes()
