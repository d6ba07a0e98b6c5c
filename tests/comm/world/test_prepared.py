"""Collectives that were called before: same bits as the first call, whatever the members' arrays are."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, CollectiveMismatchError
from emu.comm.world.prepared import LARGEST, MOST, PreparedCalls

SIZES = [1, 33, 2048, 2049, 8191, 16384, LARGEST // 4]


def given(turn: int, shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    """What each member gives in a turn."""
    n = emu.world().n_pes
    rng = np.random.default_rng([turn, *shape])
    return [rng.integers(0, 100, shape).astype(dtype) for _ in range(n)]


def forms(array: np.ndarray, key: str) -> list[Any]:
    """An array as it is, strided, symmetric, not aligned, and as a list."""
    strided = np.zeros((*array.shape, 2), array.dtype)[..., 0]
    symmetric = emu.world().alloc(array.shape, array.dtype, key=key)
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    for copy in (strided, symmetric.local, memory):
        copy[...] = array
    return [array.copy(), strided, symmetric, memory]


def view(array: Any) -> np.ndarray:
    return array.local if isinstance(array, emu.SymmetricArray) else array


def one_turn(turn: int, size: int, form: int, target: int) -> None:
    """All kinds, with the array in one form and the output in another."""
    world = emu.world()
    n, me, root = world.n_pes, world.my_pe, turn % world.n_pes
    mine, wide = given(turn, (size,)), given(turn, (n, size))
    total = np.sum(mine, axis=0, dtype=np.float32)

    def source(array: np.ndarray) -> Any:
        return forms(array, f"in {array.shape}")[form]

    def out(*shape: int) -> Any:
        return forms(np.zeros(shape, np.float32), f"out {shape}")[target]

    def check(result: np.ndarray, given_out: Any, expected: np.ndarray) -> None:
        assert np.shares_memory(result, view(given_out))
        np.testing.assert_array_equal(result, expected)

    for _ in range(2):
        place = out(size)
        check(world.all_reduce(source(mine[me]), out=place), place, total)
        check(world.broadcast(source(mine[me]), root, out=place), place, mine[root])
        place = out(n, size)
        check(world.all_gather(source(mine[me]), out=place), place, np.stack(mine))
        check(world.all_to_all(source(wide[me]), out=place), place, np.stack([w[me] for w in wide]))
        place = out(size)
        summed = np.sum([w[me] for w in wide], axis=0, dtype=np.float32)
        check(world.reduce_scatter(source(wide[me]), out=place), place, summed)


def every_form() -> None:
    world = emu.world()
    turn = 0
    for size in SIZES:
        for shift in range(4):  # members differ in what they pass
            turn += 1
            one_turn(turn, size, (world.my_pe * shift) % 4, (world.my_pe * shift + turn) % 4)


@pytest.mark.parametrize("n_pes", thorough([1, 2, 3, 8], 2))
def test_every_form_of_arrays_meets_every_other(n_pes: int) -> None:
    emu.launch(every_form, n_pes, timeout=60)


def in_place() -> None:
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    for size in (5, 3000):
        for turn in range(3):
            mine, wide = given(turn, (size,)), given(turn, (n, size))
            data = mine[me].copy()
            world.all_reduce(data, out=data)
            np.testing.assert_array_equal(data, np.sum(mine, axis=0))
            data = mine[me].copy()
            world.broadcast(data, 0, out=data)
            np.testing.assert_array_equal(data, mine[0])
            whole = wide[me].copy()
            world.all_to_all(whole, out=whole)
            np.testing.assert_array_equal(whole, [w[me] for w in wide])
            whole[me] = mine[me]
            world.all_gather(whole[me], out=whole)
            np.testing.assert_array_equal(whole, mine)
            whole = wide[me].copy()
            world.reduce_scatter(whole, out=whole[me])
            np.testing.assert_array_equal(whole[me], np.sum([w[me] for w in wide], axis=0))
            # Overlaps of other kinds: the input is as it was when the call began.
            memory = np.zeros(size + 2, np.float32)
            memory[:size] = mine[me]
            world.all_reduce(memory[:size], out=memory[2:])
            np.testing.assert_array_equal(memory[2:], np.sum(mine, axis=0))
            whole[n - 1] = mine[me]
            world.all_gather(whole[n - 1], out=whole)
            np.testing.assert_array_equal(whole, mine)


@pytest.mark.parametrize("n_pes", [1, 3])
def test_in_place_and_overlapping(n_pes: int) -> None:
    emu.launch(in_place, n_pes, timeout=30)


def differing() -> list[str]:
    """Members whose prepared calls differ are told, and what comes next works."""
    world = emu.world()
    me, found = world.my_pe, []
    data, ints = np.ones(4, np.float32), np.ones(4, np.int32)
    wrong = [
        lambda: world.all_reduce(data, "max" if me else "sum"),
        lambda: world.all_reduce(ints if me else data),
        lambda: world.broadcast(data, me),
        lambda: world.all_gather(data) if me else world.all_reduce(data),
        lambda: world.barrier() if me else world.all_reduce(data),
        lambda: world.all_reduce(data[: 2 + 2 * me]),
    ]
    for _ in range(2):  # the first time nothing is prepared
        for op in ("sum", "max"):
            world.all_reduce(data, op)
        world.all_reduce(ints)
        world.all_gather(data)
        world.all_reduce(data[:2])
        for root in range(world.n_pes):
            world.broadcast(data, root)
    for call in wrong:
        out = data.copy()
        try:
            call()
        except CollectiveMismatchError as error:
            found.append(str(error))
        assert data.tolist() == out.tolist()
        assert world.all_reduce(data).tolist() == [world.n_pes] * 4
    # The root alone knows dtype and shape.
    result = world.broadcast(None if me else data, 0)
    assert result.tolist() == [1] * 4
    return found


def test_members_that_differ_are_told() -> None:
    first, second = emu.launch(differing, 2, timeout=30)
    assert first == second
    assert len(first) == 6
    assert "all_reduce(float32 (4,), op='sum')" in first[0]
    assert "op='max'" in first[0]
    assert "test_prepared.py" in first[0]
    assert "barrier()" in first[4]


def wrong_arguments() -> None:
    world = emu.world()
    data = np.ones(4, np.float32)
    frozen = data.copy()
    frozen.flags.writeable = False
    for _ in range(3):
        world.all_reduce(data)
        world.broadcast(data, 1)
    for call in (
        lambda: world.all_reduce(data, ["sum"]),
        lambda: world.all_reduce(data, "Sum"),
        lambda: world.all_reduce(data, out=frozen),
        lambda: world.all_reduce(data, out=np.zeros(5, np.float32)),
        lambda: world.all_reduce(data, out=np.zeros(4, np.int32)),
        lambda: world.all_reduce(data, out=[0.0] * 4),
        lambda: world.broadcast(data, 1.0),
        lambda: world.broadcast(data, 2),
    ):
        with pytest.raises(ArgumentError):
            call()
    freed = world.alloc(4, np.float32)
    freed.free()
    with pytest.raises(emu.comm.errors.SymmetricMemoryError, match="was freed"):
        world.all_reduce(freed)
    assert world.all_reduce(data).tolist() == [2] * 4


def test_wrong_arguments_are_told_as_before() -> None:
    emu.launch(wrong_arguments, 2, timeout=30)


def late() -> None:
    """A member comes after the others have gone to sleep, at each barrier of a call."""
    world = emu.world()
    for size in (8, 4000):
        data = np.full(size, 1 + world.my_pe, np.float32)
        for turn in range(4):
            if turn % world.n_pes == world.my_pe:
                time.sleep(0.25)  # longer than a slice
            assert (world.all_reduce(data) == np.arange(1, world.n_pes + 1).sum()).all()


def test_a_member_that_is_late() -> None:
    emu.launch(late, 2, timeout=30)


def many_shapes() -> int:
    world = emu.world()
    for size in range(1, MOST + 20):
        assert world.all_gather(np.full(size, size, np.int16)).sum() == size * size * world.n_pes
    prepared = world._exchange.prepared
    assert isinstance(prepared, PreparedCalls)
    return len(prepared._calls)


def test_no_more_calls_are_kept_than_that() -> None:
    assert max(emu.launch(many_shapes, 2, timeout=30)) <= MOST


def in_the_heap(nbytes: int) -> list[bool]:
    """Say for each kind whether its second call, with arrays in the heap, is a prepared one."""
    world = emu.world()
    n, me, found = world.n_pes, world.my_pe, []
    count = nbytes // 4
    flat, wide = (
        world.alloc(shape, np.float32, key=f"heap {shape}") for shape in ((count,), (n, count // n))
    )
    calls = [("all_reduce", "sum", flat, flat), ("all_to_all", None, wide, wide)]
    for kind, detail, source, target in calls:
        source.local[...] = me + 1
        getattr(world, kind)(source, out=target)
        source.local[...] = me + 2
        again = world._exchange.prepared.call(kind, detail, source, target)
        found.append(again is not None)
        expected = np.arange(2, n + 2)
        if again is None:
            continue
        if kind == "all_reduce":
            assert (target.local == expected.sum()).all()
        else:
            assert (target.local == expected[:, None]).all()
    return found


@pytest.mark.parametrize(
    ("nbytes", "heap_size", "prepared"),
    [
        (32 << 10, 1 << 24, True),
        (64 << 10, 1 << 24, True),
        (96 << 10, 1 << 24, False),
        (64 << 10, 1 << 20, False),  # no buffer takes it at once
    ],
)
def test_small_arrays_in_the_heap_are_prepared(nbytes: int, heap_size: int, prepared: bool) -> None:
    found = emu.launch(in_the_heap, 2, args=(nbytes,), heap_size=heap_size, timeout=30)
    assert found == [[prepared, prepared]] * 2
