"""Tiles and atomics: SET against memcpy, ADD under the region lock against NumPy's in-place add."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel

Array = np.ndarray[Any, Any]
DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}
N = 1024


def ordinary(dtype: Any, seed: int, scale: float = 1.0) -> Array:
    """Draw values in [1, 2) times ``scale``, of either sign where scaled: never NaN or subnormal."""
    rng = np.random.default_rng(seed)
    drawn = scale * rng.uniform(1, 2, (N, N))
    return (drawn if scale == 1 else rng.choice([-1, 1], (N, N)) * drawn).astype(dtype)


def plain(array: Array) -> Array:
    """Return the same bytes as integers, which NumPy copies by memcpy."""
    return array.view(f"u{array.itemsize}")


@contextmanager
def world_of_one(heap_bytes: int = 64 << 20) -> Iterator[Any]:
    """Make a world of one PE in this process."""
    from emu.comm.layout import Layout
    from emu.comm.memory.heap import register
    from emu.comm.memory.segment import Segment
    from emu.comm.world.world import World

    segment = Segment.create(Layout(n_pes=1, heap_bytes=heap_bytes))
    try:
        yield World(segment, register(segment, 0, 1), 0, poison=False)
    finally:
        segment.close()


def _set(view: Callable[[Array], tuple[Array, Array]], dtype: str, settings: Settings) -> Outcome:
    from emu.kernels.tiles import set_tile

    # Both write to the same target: where memory lies decides a few percent.
    target, source = view(ordinary(DTYPES[dtype], 0))
    theirs, original = plain(target), plain(source)
    set_tile(target, source)
    if not np.array_equal(theirs, original):
        return Outcome(note="set_tile stored something else")
    return duel(
        settings,
        clock(lambda: set_tile(target, source)),
        clock(lambda: np.copyto(theirs, original)),
    )


def dense(whole: Array) -> tuple[Array, Array]:
    return np.empty_like(whole), whole


def columns(whole: Array) -> tuple[Array, Array]:
    return np.empty((N, 2 * N), whole.dtype)[:, N // 2 : N // 2 + N], whole


def thinned(whole: Array) -> tuple[Array, Array]:
    return np.empty((N, N // 2), whole.dtype), whole[:, ::2]


def spread(whole: Array) -> tuple[Array, Array]:
    return np.empty((N, 2 * N), whole.dtype)[:, ::2], whole


def transposed(whole: Array) -> tuple[Array, Array]:
    return np.empty_like(whole), whole.T


def small(whole: Array) -> tuple[Array, Array]:
    return np.empty_like(whole)[8:24, 8:24], whole[:16, :16].copy()


def _add(dtype: str, settings: Settings) -> Outcome:
    with world_of_one() as world:
        return _add_in(world, dtype, settings)  # its arrays must be gone before the world is


def _add_in(world: Any, dtype: str, settings: Settings) -> Outcome:
    import emu

    source = ordinary(DTYPES[dtype], 1, 2.0**-9)
    tile = world.alloc((N, N), DTYPES[dtype])
    tile.local[...] = ordinary(DTYPES[dtype], 2)
    theirs = tile.local.copy()
    add = emu.AtomicOp.ADD
    world.put(tile, source, 0, op=add)
    np.add(theirs, source, out=theirs)
    if not np.array_equal(tile.local, theirs):
        return Outcome(note="the ADD gave other sums")
    return duel(
        settings,
        clock(lambda: world.put(tile, source, 0, op=add)),
        clock(lambda: np.add(theirs, source, out=theirs)),
    )


COUNT = 1 << 14


def walk(dtype: str) -> tuple[Callable[[], object], Callable[[], object], Array, Array]:
    """Return (atomic adds over an array, NumPy's unbuffered add of the same, ours, theirs)."""
    import numba

    from emu.kernels import atomics

    if dtype == "bf16":

        @numba.njit
        def add(array: Any) -> None:
            for i in range(array.size):
                atomics.add_bf16(array, i, 1.0)
    else:

        @numba.njit
        def add(array: Any) -> None:
            for i in range(array.size):
                atomics.add(array, i, 1)

    ours, theirs = (np.zeros(COUNT, DTYPES.get(dtype, np.int32)) for _ in range(2))
    index, one = np.arange(COUNT), ours.dtype.type(1)
    array = ours.view(np.uint16) if dtype == "bf16" else ours
    add(array)
    np.add.at(theirs, index, one)
    return lambda: add(array), lambda: np.add.at(theirs, index, one), ours, theirs


def _atomics(dtype: str, settings: Settings) -> Outcome:
    ours, theirs, counted, expected = walk(dtype)
    if not np.array_equal(counted, expected):
        return Outcome(note="the atomics counted something else")
    outcome = duel(settings, clock(ours), clock(theirs))
    scale = 1e9 / COUNT
    return Outcome(
        outcome.ours and outcome.ours * scale,
        outcome.theirs and outcome.theirs * scale,
        "no atomic in np.add.at",
    )


def _bench_set(case: str, view: Any, dtype: str, goal: Goal) -> Bench:
    return Bench(
        f"tiles/set {case} {dtype}", "np.copyto", "us", goal, functools.partial(_set, view, dtype)
    )


ROWS = [
    _bench_set("1024x1024", dense, "fp32", Goal(0.9)),
    _bench_set("1024x1024", dense, "bf16", Goal(0.9)),
    _bench_set("columns of a wider array", columns, "fp32", Goal(0.9)),
    _bench_set("transposed source", transposed, "fp32", Goal(1.0)),
    _bench_set("transposed source", transposed, "bf16", Goal(1.0)),
    _bench_set("every second element of the source", thinned, "fp32", Goal(1.0)),
    _bench_set("every second element of the target", spread, "fp32", Goal(0.9)),
    _bench_set("16x16 in a wider array", small, "fp32", Goal(1.0)),
    *(
        Bench(
            f"tiles/add 1024x1024 {dtype} under the lock",
            "NumPy in place" if dtype != "bf16" else "ml_dtypes in place",
            "us",
            Goal(goal),
            functools.partial(_add, dtype),
        )
        for dtype, goal in (("fp32", 0.9), ("bf16", 7.0), ("fp16", 20.0))
    ),
    *(
        Bench(f"atomics/add {name}", "np.add.at", "ns", Goal(), functools.partial(_atomics, dtype))
        for name, dtype in (("i32", "int32"), ("f32", "fp32"), ("bf16", "bf16"))
    ),
]
