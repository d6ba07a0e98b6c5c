"""put and get, SET and ADD, against NumPy: shapes, strides, tails, dtypes, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emu
from emu.comm.errors import ArgumentError, SymmetricMemoryError
from emu.comm.world.world import World
from emu.kernels.core.dtypes import DTYPES

Worlds = Callable[..., list[World]]
relaxed = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Draw values over the whole range of a dtype, NaN and infinities among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    with np.errstate(over="ignore"):
        raw = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), raw).astype(dtype)


def reference_add(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """What ADD means: one addition in the dtype, rounded to nearest even; integers wrap."""
    with np.errstate(all="ignore"):
        if target.dtype in (np.float16, ml_dtypes.bfloat16):
            return (target.astype(np.float32) + source.astype(np.float32)).astype(target.dtype)
        return target + source


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    if actual.dtype.kind in "fV":
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(actual), nan)
        actual, expected = actual[~nan], expected[~nan]
    assert np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected).tobytes()


tiles = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", [emu.AtomicOp.SET, emu.AtomicOp.ADD])
@relaxed
@given(
    axes=tiles,
    step=st.sampled_from([1, 1, 2, -1]),
    transpose=st.booleans(),
    seed=st.integers(0, 999),
)
def test_put_of_a_tile(
    worlds: Worlds,
    dtype: np.dtype[Any],
    op: emu.AtomicOp,
    axes: list[tuple[int, int, int]],
    step: int,
    transpose: bool,
    seed: int,
) -> None:
    """A tile of any strides at any offset, and nothing around it."""
    rng = np.random.default_rng(seed)
    shape = tuple(extent for extent, _, _ in axes)
    offsets = tuple(offset for _, offset, _ in axes)
    whole = tuple(extent + offset + after for extent, offset, after in axes)
    me, _ = worlds(2, heap_bytes=1 << 22)
    target = me.alloc(whole, dtype)
    before = values(rng, whole, dtype)
    target.on(1)[...] = before
    source = values(rng, (*shape[:-1], shape[-1] * abs(step)), dtype)[..., ::step]
    if transpose:
        source = np.asfortranarray(source)
    me.put(target, source, 1, offsets=offsets, op=op)
    expected = before.copy()
    window = tuple(slice(o, o + n) for o, n in zip(offsets, shape, strict=True))
    expected[window] = source if op is emu.AtomicOp.SET else reference_add(before[window], source)
    assert_same_bits(target.on(1), expected)
    assert not target.on(0).view(np.uint8).any()
    fetched = me.get(target, 1, offsets=offsets, shape=shape)
    assert_same_bits(fetched, expected[window])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16], ids=str)
def test_a_large_tile_spans_many_lock_regions(worlds: Worlds, dtype: Any) -> None:
    me, other, _ = worlds(3)
    rng = np.random.default_rng(1)
    target = me.alloc((700, 333), dtype)
    source = values(rng, (700, 333), np.dtype(dtype))
    me.put(target, source, 2)
    theirs = other.alloc((700, 333), dtype)
    other.put(theirs, source, 2, op=emu.AtomicOp.ADD)
    other.put(theirs, source[:, 5:], 2, offsets=(0, 5), op=emu.AtomicOp.ADD)
    expected = reference_add(source, source)
    expected[:, 5:] = reference_add(expected[:, 5:], source[:, 5:])
    assert_same_bits(target.on(2), expected)


def test_views_are_targets_and_sources(worlds: Worlds) -> None:
    me, _ = worlds(2)
    target = me.alloc((6, 8), np.int32)
    me.put(target[1::2, 2:6], np.arange(12, dtype=np.int32).reshape(3, 4), 1)
    expected = np.zeros((6, 8), np.int32)
    expected[1::2, 2:6] = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(target.on(1), expected)
    np.testing.assert_array_equal(me.get(target[3], 1), expected[3])
    np.testing.assert_array_equal(me.get(target[:, ::-1], 1), expected[:, ::-1])
    out = np.empty((3, 2), np.int32)
    assert me.get(target, 1, offsets=(1, 2), shape=(3, 2), out=out) is out
    np.testing.assert_array_equal(out, expected[1:4, 2:4])
    np.testing.assert_array_equal(me.get(target, 1, offsets=(4, 5)), expected[4:, 5:])
    target[2] = 9
    np.testing.assert_array_equal(target.local[2], [9] * 8)
    assert target[2, 3].shape == ()
    me.put(target[2, 3], 5, 0)
    assert target.local[2, 3] == 5
    assert len(target) == 6
    assert np.asarray(target).shape == (6, 8)


def test_scalars_lists_and_symmetric_sources(worlds: Worlds) -> None:
    me, _ = worlds(2)
    a = me.alloc(3, np.float32)
    me.put(a, [1, 2.5, 3], 1)
    me.put(a, a, 1, op=emu.AtomicOp.ADD)  # mine is zero
    np.testing.assert_array_equal(a.on(1), np.array([1, 2.5, 3], np.float32))
    b = me.alloc((), np.int8)
    me.put(b, -3, 1)
    assert b.on(1) == -3


def test_a_source_that_overlaps_its_target(worlds: Worlds) -> None:
    (me,) = worlds(1)
    a = me.alloc((5, 5), np.int32)
    start = np.arange(25, dtype=np.int32).reshape(5, 5)
    a.local[...] = start
    me.put(a, a.local[:, :-1], 0, offsets=(0, 1))
    np.testing.assert_array_equal(a.local[:, 1:], start[:, :-1])
    np.testing.assert_array_equal(a.local[:, 0], start[:, 0])


def test_empty_tiles(worlds: Worlds) -> None:
    me, _ = worlds(2)
    a = me.alloc((0, 4), np.float32)
    me.put(a, np.empty((0, 4), np.float32), 1)
    assert me.get(a, 1).shape == (0, 4)
    b = me.alloc((2, 2), np.float32)
    me.put(b, np.empty((0, 2), np.float32), 1, offsets=(1, 0), op=emu.AtomicOp.ADD)
    assert not b.on(1).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"src": np.zeros((2, 2), np.float64)},
            "src must have the dtype of dst, float32, but got float64",
        ),
        ({"pe": 2}, r"pe must be in \[0, 2\) for group 'world', but got 2"),
        ({"pe": -1}, r"pe must be in \[0, 2\)"),
        ({"offsets": None}, r"src must be a tile of dst's shape \(4, 6\)"),
        ({"offsets": (0,)}, "rank 2"),
        (
            {"offsets": (3, 0)},
            r"offsets\[0\] must be in \[0, 2\] for a tile \(src\) of extent 2 in an axis of 4 of dst, but got 3",
        ),
        ({"offsets": (0, -1)}, r"offsets\[1\] must be in \[0, 4\]"),
        ({"src": np.zeros(2, np.float32)}, "rank 2"),
    ],
)
@pytest.mark.parametrize("op", [emu.AtomicOp.SET, emu.AtomicOp.ADD])
def test_put_refuses(
    worlds: Worlds, change: dict[str, Any], message: str, op: emu.AtomicOp
) -> None:
    me, _ = worlds(2)
    target = me.alloc((4, 6), np.float32)
    arguments: dict[str, Any] = {
        "src": np.ones((2, 2), np.float32),
        "pe": 1,
        "offsets": (0, 0),
        **change,
    }
    src, pe = arguments.pop("src"), arguments.pop("pe")
    with pytest.raises(ArgumentError, match=message):
        me.put(target, src, pe, op=op, **arguments)
    assert not target.on(1).any()


def test_get_refuses(worlds: Worlds) -> None:
    me, _ = worlds(2)
    a = me.alloc((4, 6), np.float32)
    with pytest.raises(ArgumentError, match=r"offsets\[1\]"):
        me.get(a, 1, offsets=(0, 4), shape=(1, 3))
    with pytest.raises(ArgumentError, match="must not be negative"):
        me.get(a, 1, shape=(-1, 3))
    with pytest.raises(ArgumentError, match="out must be an ndarray of shape"):
        me.get(a, 1, out=np.empty((4, 5), np.float32))
    frozen = np.empty((4, 6), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="out must be writable"):
        me.get(a, 1, out=frozen)


def test_a_freed_array_is_refused(worlds: Worlds) -> None:
    me, other = worlds(2)
    a, theirs = me.alloc(4, np.int32), other.alloc(4, np.int32)
    view = a[1:]
    a.free()
    for use in (lambda: me.put(a, np.zeros(4, np.int32), 1), lambda: view.local, a.free):
        with pytest.raises(SymmetricMemoryError, match="was freed"):
            use()
    other.put(theirs, np.ones(4, np.int32), 1)  # the other member's is still there
    with pytest.raises(SymmetricMemoryError, match="view"):
        theirs[1:].free()


def add_tiles(rounds: int) -> dict[str, list[float]]:
    """All PEs add into one tile of PE 0 at once, in every dtype; each partial sum is exact."""
    world = emu.world()
    found = {}
    for dtype in DTYPES:
        tile = world.alloc((37, 53), dtype)
        source = np.ones((37, 53), dtype)
        world.barrier()
        for _ in range(rounds):
            world.put(tile, source, 0, op=emu.AtomicOp.ADD)
            world.put(tile, source[:, ::2], 0, offsets=(0, 0), op=emu.AtomicOp.ADD)
        world.barrier()
        found[str(dtype)] = [float(x) for x in np.unique(world.get(tile, 0).astype(np.float64))]
    return found


def test_add_is_atomic_against_add() -> None:
    rounds, n_pes = 12, 4
    for found in emu.launch(add_tiles, n_pes, args=(rounds,)):
        for dtype, seen in found.items():
            once, twice = rounds * n_pes, 2 * rounds * n_pes
            expected = [1.0] if dtype == "bool" else [float(once), float(twice)]
            assert seen == expected, dtype


def add_tiles_and_words(rounds: int) -> list[int]:
    """Tile ADDs and single atomics meet on the same words; none may be lost."""
    world = emu.world()
    words = world.alloc(1000, np.int64)
    ones = np.ones(1000, np.int64)
    world.barrier()
    for turn in range(rounds):
        if (turn + world.my_pe) % 2:
            world.put(words, ones, 0, op=emu.AtomicOp.ADD)
        else:
            for index in range(0, 1000, 50):
                world.fetch_add(words, 1, 0, index=index)
    world.barrier()
    return [int(n) for n in world.get(words, 0)]


def test_tiles_and_single_atomics_are_atomic_against_each_other() -> None:
    rounds = 60
    counts = emu.launch(add_tiles_and_words, 2, args=(rounds,))[0]
    for index, count in enumerate(counts):
        assert count == (2 * rounds if index % 50 == 0 else rounds)


def tear(rounds: int) -> bool:
    """SET of 8-byte elements whose halves must agree, while a reader looks."""
    world = emu.world()
    tile = world.alloc(4096, np.uint64)
    world.barrier()
    whole = True
    for turn in range(rounds):
        if world.my_pe == 0:
            value = turn & 0xFFFF
            world.put(tile, np.full(4096, value << 32 | value, np.uint64), 1)
        elif world.my_pe == 1:
            seen = world.get(
                tile, 1
            )  # NumPy's own copies may tear at their ends: they call memmove
            whole &= bool(((seen >> np.uint64(32)) == (seen & np.uint64(0xFFFFFFFF))).all())
    return whole


def test_set_does_not_tear_an_element() -> None:
    assert emu.launch(tear, 2, args=(3000,)) == [True, True]


@pytest.mark.parametrize("link", [None, emu.Link(bandwidth=1e18)], ids=["plain", "linked"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sig_op": "nonsense"}, "sig_op must be one of AtomicOp's SET, ADD, but got 'nonsense'"),
        ({"value": 1.5}, "value must be an integer, but got 1.5"),
        ({"index": 4}, r"index must be in \[0, 4\)"),
        ({"op": 7}, "op must be one of AtomicOp's"),
        ({"src": "text"}, "src must have the dtype of dst, float32"),
        ({"pe": 2}, r"pe must be in \[0, 2\)"),
    ],
)
def test_a_refused_put_signal_stores_and_signals_nothing(
    worlds: Worlds, link: emu.Link | None, change: dict[str, object], message: str
) -> None:
    me, _ = worlds(2, link=link)
    data, words = me.alloc(3, np.float32), me.alloc(4, np.int64)
    good = {"dst": data, "src": [1, 2, 3], "pe": 1, "signal": words, "value": 1}
    with pytest.raises(ArgumentError, match=message):
        me.put_signal(**{**good, **change})  # type: ignore[arg-type] # the mistake under test
    assert not data.on(1).any()
    assert not words.on(1).any()
    me.put_signal(**good)  # type: ignore[arg-type] # the mistake under test
    assert data.on(1).tolist() == [1, 2, 3]
    assert words.on(1).tolist() == [1, 0, 0, 0]


def test_a_value_that_only_begins_with_axes_of_one_is_refused(worlds: Worlds) -> None:
    a = worlds(1)[0].alloc((4, 6), np.float32)
    with pytest.raises(ArgumentError, match="value must broadcast"):
        a[3] = [[1, 2, 3]]
    a[3] = [[1, 2, 3, 4, 5, 6]]
    assert a.local[3].tolist() == [1, 2, 3, 4, 5, 6]
