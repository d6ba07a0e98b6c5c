"""Collectives against NumPy, on 1 to 8 PEs; what goes wrong says so and does not hang."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, CollectiveMismatchError
from emu.comm.world.group import Group
from emu.kernels.core.dtypes import DTYPES

BF16 = np.dtype(ml_dtypes.bfloat16)
PES = [1, 2, 3, 8]
SOME = [np.dtype(d) for d in (np.bool_, np.int8, np.uint16, np.float16, BF16, np.float64)]
# Around the limits: a cache line, small and large reductions, one and several rounds.
SIZES = [0, 1, 7, 2047, 2048, 2049, 100_003]
_STEP = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def block(pe: int, shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    """What PE ``pe`` gives."""
    rng = np.random.default_rng([seed, pe])
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return (rng.standard_normal(shape) * 3).astype(dtype)


def blocks(group: Group, shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    return np.stack([block(p, shape, dtype, seed) for p in range(group.n_pes)])


def combined(op: str, arrays: np.ndarray) -> np.ndarray:
    """The meaning of a reduction: in member order, 16 bits in fp32 with one rounding."""
    dtype = arrays.dtype
    if dtype.kind == "b":
        return arrays.any(0) if op in ("sum", "max") else arrays.all(0)
    with np.errstate(all="ignore"):
        wide = arrays.astype(np.float32) if dtype in (np.float16, BF16) else arrays
        total = reduce(_STEP[op], wide)
        if op == "avg":
            total = total / total.dtype.type(len(arrays))
        return total.astype(dtype)


def same(actual: np.ndarray | None, expected: np.ndarray) -> None:
    assert actual is not None
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()


# --- each collective ---------------------------------------------------------------------------


def check_moves(group: Group, shape: Any, dtype: Any, seed: int = 0) -> None:
    """Every collective that only moves blocks."""
    n, me = group.n_pes, group.my_pe
    all_ = blocks(group, shape, dtype, seed)
    mine = all_[me]
    root = seed % n
    same(group.broadcast(mine if me == root else None, root), all_[root])
    same(group.broadcast(mine, root), all_[root])
    same(group.all_gather(mine), all_)
    gathered = group.gather(mine, root)
    if me == root:
        same(gathered, all_)
    else:
        assert gathered is None
    same(group.scatter(all_ if me == root else None, root), mine)
    grid = np.stack([blocks(group, shape, dtype, seed + 1 + p) for p in range(n)])  # [from, to]
    same(group.all_to_all(grid[me]), grid[:, me])
    pairs = [(p, (p + 1) % n) for p in range(n - 1)]
    expected = all_[me - 1] if (me - 1, me) in pairs else np.zeros_like(mine)
    if n > 1:
        expected = all_[(me - 1) % n] if ((me - 1) % n, me) in pairs else np.zeros_like(mine)
    same(group.permute(mine, pairs), expected)


def check_rows(group: Group, scale: int, dtype: Any) -> None:
    """all_to_all_v; member p sends (p + 2 q) % 4 * scale rows to member q."""
    n, me = group.n_pes, group.my_pe
    matrix = np.array([[(p + 2 * q) % 4 * scale for q in range(n)] for p in range(n)])
    data = [block(p, (int(matrix[p].sum()), 3), dtype) for p in range(n)]
    ends = matrix.cumsum(1)
    expected = np.concatenate(
        [data[p][ends[p, me] - matrix[p, me] : ends[p, me]] for p in range(n)]
    )
    got, counts = group.all_to_all_v(data[me], matrix[me])
    same(got, expected)
    assert counts.tolist() == matrix[:, me].tolist()
    room = np.zeros((len(expected) + 2, 3), dtype)
    got, _ = group.all_to_all_v(data[me], matrix[me], out=room)
    same(got, expected)
    assert np.shares_memory(got, room) or not got.size
    assert not room[len(expected) :].any()


def check_reductions(group: Group, shape: Any, dtype: Any, ops: list[str], seed: int = 0) -> None:
    me = group.my_pe
    for op in ops:
        all_ = blocks(group, shape, dtype, seed)
        same(group.all_reduce(all_[me], op), combined(op, all_))
        rows = np.stack([blocks(group, shape, dtype, seed + p) for p in range(group.n_pes)])
        same(group.reduce_scatter(rows[me], op), combined(op, rows[:, me]))


def everything(sizes: list[int]) -> None:
    world = emu.world()
    for size in sizes:
        for dtype in (np.dtype(np.float32), np.dtype(np.uint8)):
            check_moves(world, (size,), dtype, size)
            check_reductions(world, (size,), dtype, ["sum"], size)
    for dtype in SOME:
        check_moves(world, (5, 3), dtype)
    for dtype in DTYPES:
        ops = ["sum", "prod", "max", "min"]
        if dtype == BF16 or dtype.kind == "f":
            ops.append("avg")
        check_reductions(world, (7, 3), dtype, ops)
        check_reductions(world, (3001,), dtype, ops[-2:])
    check_moves(world, (), np.dtype(np.int32))
    check_reductions(world, (), np.dtype(np.int32), ["max"])
    check_moves(world, (2, 0, 3), np.dtype(np.int32))
    for scale in (0, 1, 5000):
        check_rows(world, scale, np.dtype(np.float32))


@pytest.mark.parametrize("n_pes", thorough(PES, 1, 3))
def test_against_numpy(n_pes: int) -> None:
    emu.launch(everything, n_pes, args=(SIZES,), timeout=30)


def chunk_borders() -> None:
    """With a small heap the staging buffers are small: many rounds, and sizes around their edges."""
    world = emu.world()
    exchange = world._exchange
    slot, chunk = exchange.slot, exchange.chunk
    assert chunk <= 64 << 10
    for edge in (slot, chunk, 2 * chunk, 3 * chunk):
        for size in (edge - 1, edge, edge + 1):
            check_moves(world, (size,), np.dtype(np.uint8), size)
            check_reductions(world, (size,), np.dtype(np.uint8), ["sum"], size)
            check_reductions(world, (size // 4 + 1,), np.dtype(np.float32), ["sum"], size)


@pytest.mark.parametrize("n_pes", PES)
def test_around_the_edges_of_chunks(n_pes: int) -> None:
    emu.launch(chunk_borders, n_pes, heap_size=1 << 20, timeout=30)


# --- out, in place, strides, symmetric arrays --------------------------------------------------


def forms(size: int) -> None:
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    dtype = np.dtype(np.float32)
    all_ = blocks(world, (size,), dtype)
    grid = np.stack([blocks(world, (size,), dtype, 1 + p) for p in range(n)])
    total = combined("sum", all_)
    sym = world.alloc(size, dtype)
    wide = world.alloc((n, size), dtype)

    def places(shape: tuple[int, ...]) -> list[Any]:
        strided = np.zeros((*shape, 2), dtype)[..., 1]
        return [np.zeros(shape, dtype), strided, sym if len(shape) == 1 else wide]

    def given(array: np.ndarray) -> list[Any]:
        strided = np.zeros((*array.shape, 2), dtype)[..., 0]
        strided[...] = array
        symmetric = world.alloc(array.shape, dtype, key=f"in{array.shape}")
        symmetric.local[...] = array
        return [array, strided, symmetric]

    def view(out: Any) -> np.ndarray:
        return out.local if isinstance(out, emu.SymmetricArray) else out

    for array in given(all_[me]):
        for out in places((size,)):
            result = world.all_reduce(array, out=out)
            same(view(out), total)
            assert np.shares_memory(result, view(out))
            same(np.asarray(array), all_[me])
            world.permute(array, [(n - 1, 0)], out=out)
            same(view(out), all_[n - 1] if me == 0 else np.zeros(size, dtype))
            world.broadcast(array, 0, out=out)
            same(view(out), all_[0])
        for out in places((n, size)):
            world.all_gather(array, out=out)
            same(view(out), all_)
            world.gather(array, n - 1, out=out)
    for array in given(grid[me]):
        for out in places((n, size)):
            world.all_to_all(array, out=out)
            same(view(out), grid[:, me])
        for out in places((size,)):
            world.reduce_scatter(array, out=out)
            same(view(out), combined("sum", grid[:, me]))
            world.scatter(array, 0, out=out)
            same(view(out), grid[0, me])
    # In place, and over itself: shifted outputs and outputs inside inputs.
    for array in given(all_[me].copy()):
        world.all_reduce(array, out=array)
        same(view(array), total)
    both = np.concatenate([all_[me], np.zeros(8, dtype)])
    world.all_reduce(both[:size], out=both[8:])
    same(both[8:], total)
    wide.local[me] = all_[me]
    world.all_gather(wide[me], out=wide)
    same(wide.local, all_)
    mine = grid[me].copy()
    world.all_to_all(mine, out=mine)
    same(mine, grid[:, me])
    mine = grid[me].copy()
    world.reduce_scatter(mine, out=mine[0])
    same(mine[0], combined("sum", grid[:, me]))
    # Members differ in where their arrays lie.
    sym.local[...] = all_[me]
    same(world.all_reduce(sym if me % 2 else all_[me]), total)
    out = sym if me % 2 else np.empty(size, dtype)
    same(world.all_reduce(all_[me], out=out), total)
    sym.local[...] = all_[me]
    same(world.all_gather(sym if me % 2 else all_[me]), all_)
    # The caller may change its memory at once.
    for turn in range(3):
        sym.local[...] = turn + me
        got = world.all_reduce(sym)
        sym.local[...] = -1
        assert (got == sum(turn + p for p in range(n))).all()


@pytest.mark.parametrize("n_pes", thorough(PES, 3))
@pytest.mark.parametrize("size", [100, 10_000, 20_000, 30_000, 90_001])
def test_where_arrays_lie(n_pes: int, size: int) -> None:
    emu.launch(forms, n_pes, args=(size,), timeout=30, heap_size=1 << 24)


# --- values ------------------------------------------------------------------------------------


def special() -> list[bytes]:
    world = emu.world()
    me = world.my_pe
    floats = np.array([np.nan if me == 1 else 1, np.inf, -np.inf if me else np.inf, me], np.float32)
    for dtype in (np.float16, BF16, np.float32, np.float64):
        array = floats.astype(dtype)
        for op in ("max", "min"):
            got = world.all_reduce(array, op).astype(np.float64)
            assert np.isnan(got[0])
            assert got[3] == (world.n_pes - 1 if op == "max" else 0)
        assert np.isnan(world.all_reduce(array, "sum").astype(np.float64)[2])
    assert world.all_reduce(np.array([100], np.int8))[0] == np.int8(300 - 256)
    ones = np.array([2048.0 if me == 0 else 1.0], np.float16)
    assert world.all_reduce(ones)[0] == 2050
    rng = np.random.default_rng(me)
    return [
        world.all_reduce(rng.standard_normal(size).astype(np.float32)).tobytes()
        for size in (100, 50_000)
    ]


def test_special_values_and_equal_bits() -> None:
    first, again = emu.launch(special, 3, timeout=20), emu.launch(special, 3, timeout=20)
    assert first == again
    assert first[0] == first[1] == first[2]


def large() -> None:
    """Past the size from which results are written around the caches."""
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    size = (9 << 20) // 4 + 3
    array = np.arange(size, dtype=np.float32) % 1000 + me
    total = (np.arange(size, dtype=np.float32) % 1000) * n + sum(range(n))
    assert np.array_equal(world.all_reduce(array), total)
    assert np.array_equal(world.all_gather(array)[n - 1], array + (n - 1 - me))
    assert np.array_equal(world.broadcast(array, 1), array + (1 - me))


def test_large() -> None:
    emu.launch(large, 3, timeout=30)


# --- groups ------------------------------------------------------------------------------------


def groups() -> None:
    world = emu.world()
    me = world.my_pe
    half = world.group("low", range(4)) if me < 4 else world.group("high", [7, 4, 6, 5])
    parts: list[Group] = [world, half]
    if me in (2, 3, 5):
        parts.append(world.group("across", [5, 3, 2]))
    if me == 6:
        parts.append(world.group("alone", [6]))
    for turn in range(3):
        for group in parts:
            check_moves(group, (turn * 5000 + 10,), np.dtype(np.int32), turn)
            check_reductions(group, (turn * 5000 + 10,), np.dtype(np.float32), ["sum"], turn)
            check_rows(group, turn * 100, np.dtype(np.int16))
    if me in (2, 3, 5):  # an array of the world, used by a part of it
        whole = world.alloc((20_000,), np.float32, key="whole")
        whole.local[...] = me
        assert (parts[2].all_reduce(whole) == 10).all()


def test_groups_apart_and_overlapping() -> None:
    emu.launch(groups, 8, timeout=30)


# --- errors ------------------------------------------------------------------------------------


def bad_arguments() -> None:
    world = emu.world()
    a = np.ones((3, 4), np.float32)
    out = np.zeros((3, 4), np.float32)
    out.flags.writeable = False
    wrong: list[tuple[str, Callable[[], Any]]] = [
        (
            "op must be one of sum, prod, max, min, avg, but got 'mean'",
            lambda: world.all_reduce(a, "mean"),
        ),
        ("op 'avg' must have a floating-point", lambda: world.all_reduce(np.ones(3, int), "avg")),
        (r"root must be in \[0, 3\).*but got 3", lambda: world.broadcast(a, 3)),
        (r"root must be in \[0, 3\).*but got -1", lambda: world.gather(a, -1)),
        ("root must be an integer, but got 1.5", lambda: world.scatter(a, 1.5)),  # type: ignore[arg-type] # the mistake under test
        ("array must have 3 rows", lambda: world.all_to_all(a[:2])),
        ("array must have 3 rows", lambda: world.reduce_scatter(np.float32(1))),
        ("array must have one of the dtypes.*complex64", lambda: world.all_gather(a.astype("c8"))),
        (r"out must be an array of shape \(3, 4\)", lambda: world.all_reduce(a, out=a[0])),
        ("out must be writable", lambda: world.all_reduce(a, out=out)),
        ("send_counts must be 3 numbers", lambda: world.all_to_all_v(a, [3, 0])),
        ("send_counts must add up", lambda: world.all_to_all_v(a, [3, 0, 1])),
        ("pairs must name no source twice", lambda: world.permute(a, [(0, 1), (0, 2)])),
        ("pairs must name no target twice", lambda: world.permute(a, [(0, 1), (2, 1)])),
        (r"target must be in \[0, 3\)", lambda: world.permute(a, [(0, 3)])),
    ]
    for message, call in wrong:
        with pytest.raises(ArgumentError, match=message):
            call()
    assert world.all_reduce(a)[0, 0] == 3  # nothing is out of step


def test_bad_arguments() -> None:
    emu.launch(bad_arguments, 3, timeout=10)


def disagreements() -> None:
    world = emu.world()
    me = world.my_pe
    a = np.ones(4, np.float32)
    b = np.ones(5, np.float32)
    out = np.full(4, 7, np.float32)
    wrong: list[tuple[str, Callable[[], Any]]] = [
        (r"PEs 0, 1 called all_reduce\(float32 \(4,\), op='sum'\) at .*py:\d+, and PE 2 called .*\(5,\)",
         lambda: world.all_reduce(b) if me == 2 else world.all_reduce(a, out=out)),
        ("PEs 0, 2 called .*float32.*and PE 1 called .*int32",
         lambda: world.all_gather(a.astype(np.int32) if me == 1 else a)),
        ("op='sum'.*and PE 2 called .*op='max'",
         lambda: world.all_reduce(a, "max" if me == 2 else "sum", out=out)),
        ("root=0.*and PE 1 called .*root=1", lambda: world.broadcast(a, int(me == 1))),
        ("root=0.*and PE 1 called .*root=1",
         lambda: world.broadcast(a if me < 2 else None, int(me == 1))),
        (r"PEs 0, 1 called all_gather\(.*and PE 2 called all_reduce\(",
         lambda: world.all_reduce(a, out=out) if me == 2 else world.all_gather(a)),
        (r"pairs=\[\(1, 0\)\].*and PEs 1, 2 called permute\(.*pairs=\[\(0, 1\)\]",
         lambda: world.permute(a, [(0, 1)] if me else [(1, 0)])),
        (r"PE 0 called scatter\(float32 \(2,\).*PE 1 called scatter\(float32 \(4,\)",
         lambda: world.scatter(np.ones((3, 2), np.float32), out=None if me != 1 else out)),
        (r"PE 0 called barrier\(\) at .*, and PEs 1, 2 called all_reduce\(",
         lambda: world.barrier() if me == 0 else world.all_reduce(a, out=out)),
    ]  # fmt: skip
    for message, call in wrong:
        with pytest.raises(CollectiveMismatchError, match=message):
            call()
        assert (out == 7).all()
        same(world.all_reduce(a), np.full(4, 3, np.float32))  # all are still in step


def test_members_that_disagree() -> None:
    emu.launch(disagreements, 3, timeout=10)


def too_small_for_what_comes() -> None:
    world = emu.world()
    me = world.my_pe
    data = np.ones((2, 2), np.float32)
    out = np.full((1, 2), 7, np.float32)
    if me == 0:
        with pytest.raises(ArgumentError, match="out must have at least 2 rows, but got 1"):
            world.all_to_all_v(data, [1, 1], out=out)
        assert (out == 7).all()
        with pytest.raises(ArgumentError, match="out must be an array of shape"):
            world.broadcast(None, 1, out=out)
    else:
        world.all_to_all_v(data, [1, 1])
        world.broadcast(data, 1)
    assert world.all_reduce(np.ones(1, np.int64))[0] == 2


def test_an_error_found_late_leaves_the_group_in_step() -> None:
    emu.launch(too_small_for_what_comes, 2, timeout=10)


def one_does_not_come() -> None:
    world = emu.world()
    if world.my_pe == 1:
        return
    world.all_reduce(np.ones(4, np.float32))


def test_a_member_that_does_not_come() -> None:
    with pytest.raises(ExceptionGroup, match=r"all_reduce\).*missing PEs \[1\]"):
        emu.launch(one_does_not_come, 3, timeout=1)
