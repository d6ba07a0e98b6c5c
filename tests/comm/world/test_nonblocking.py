"""Non-blocking puts, gets and atomics: done by ``quiet``, with the results of the blocking ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError
from emu.comm.world.group import Group
from emu.comm.world.linked import LinkedGroup
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]
ADD = emu.AtomicOp.ADD
LINKS = pytest.mark.parametrize("link", [None, emu.Link(latency=1e-6)], ids=["plain", "linked"])


@LINKS
def test_tiles_go_where_the_blocking_forms_bring_them(worlds: Worlds, link: emu.Link) -> None:
    world, other = worlds(2, link=link)
    array, source = world.alloc((3, 4), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    world.put_nbi(array, source, 1, offsets=(1, 0))
    world.put_nbi(array[1:, 1:], source, 1, op=ADD)
    world.quiet()
    expected = np.zeros((3, 4), np.float32)
    expected[1:, :3] += source
    expected[1:, 1:] += source
    np.testing.assert_array_equal(array.on(1), expected)
    whole, part = np.empty((3, 4), np.float32), world.alloc((2, 2), np.float32)
    assert world.get_nbi(array, 1, whole) is None
    assert world.get_nbi(array, 1, part, offsets=(1, 1), shape=(2, 2)) is None
    world.quiet()
    np.testing.assert_array_equal(whole, expected)
    np.testing.assert_array_equal(part.local, expected[1:, 1:3])
    assert not array.local.any()
    assert other.my_pe == 1


@LINKS
def test_a_signal_follows_its_data(worlds: Worlds, link: emu.Link) -> None:
    world, other = worlds(2, link=link)
    array, words = world.alloc(4, np.int16), world.alloc(2, np.uint64)
    theirs = other.alloc(4, np.int16), other.alloc(2, np.uint64)
    for value in (3, 4):
        world.put_signal_nbi(
            array, np.int16([value]), 1, words, value, index=1, offsets=(2,), op=ADD, sig_op=ADD
        )
    assert other.wait_until(theirs[1], emu.Cmp.EQ, 7, index=1) == 7
    assert theirs[0].local.tolist() == [0, 0, 7, 0]


@LINKS
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_atomics_leave_the_old_value_in_out(worlds: Worlds, link: emu.Link, dtype: Any) -> None:
    world, _ = worlds(2, link=link)
    target, results = world.alloc((2, 2), dtype), world.alloc(3, dtype)
    top, plain = int(np.iinfo(dtype).max), np.zeros((2, 6), dtype)
    world.swap_nbi(results, target, top, 1, index=3)
    world.fetch_add_nbi(results, target, 1, 1, index=3, out_index=1)
    world.compare_swap_nbi(results[2:], target, int(np.iinfo(dtype).min), 5, 1, index=3)
    world.compare_swap_nbi(plain[:, ::2], target, 4, 6, 1, index=3, out_index=4)
    world.fetch_nbi(plain, target, 1, index=3)
    world.quiet()
    assert results.local.tolist() == [0, top, int(np.iinfo(dtype).min)]
    assert plain.tolist() == [[5, 0, 0, 0, 0, 0], [0, 0, 5, 0, 0, 0]]
    assert target.on(1).tolist() == [[0, 0], [0, 5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, a, t: w.put_nbi(a, np.ones(5, np.int64), 1), "src must be a tile"),
        (lambda w, a, t: w.put_nbi(a, 1, 2, offsets=()), "pe must be in"),
        (lambda w, a, t: w.get_nbi(a, 1, None), "out must be an ndarray or a SymmetricArray"),
        (lambda w, a, t: w.get_nbi(a, 1, np.ones(3, np.int64)), "out must be an ndarray of shape"),
        (lambda w, a, t: w.put_signal_nbi(a, np.ones(4, np.int64), 1, t, 1 << 70), "value must fit"),
        (lambda w, a, t: w.fetch_nbi([0], t, 1), "out must be an array of the dtype of target"),
        (lambda w, a, t: w.swap_nbi(np.zeros(1), t, 1, 1), "int64, but got float64"),
        (lambda w, a, t: w.fetch_add_nbi(a, t, 1, 1, out_index=4), "out_index must be in"),
        (lambda w, a, t: w.fetch_add_nbi(a, t, 1, 1, index=2), "index must be in"),
        (lambda w, a, t: w.fetch_add_nbi(a, "t", 1, 1), "target must be a SymmetricArray"),
        (lambda w, a, t: w.compare_swap_nbi(a, t, 1 << 63, 1, 1), "expected must fit"),
        (lambda w, a, t: w.fetch_nbi(np.broadcast_to(np.int64(0), 2), t, 1), "out must be writable"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_anything_is_done(
    worlds: Worlds, call: Callable[..., Any], message: str
) -> None:
    world = worlds(2)[0]
    array, target = world.alloc(4, np.int64), world.alloc(2, np.int64)
    with pytest.raises(ArgumentError, match=message):
        call(world, array, target)
    assert not any(each.on(pe).any() for each in (array, target) for pe in (0, 1))


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("a blocking operation was called by its public name")


BLOCKING = ("put", "get", "fetch_add", "swap", "compare_swap", "fetch", "signal_op", "wait_until", "wait_for",
            "quiet", "fence", "test")  # fmt: skip


@pytest.mark.parametrize("base", [Group, LinkedGroup])
def test_a_subclass_that_overrides_blocking_operations_does_not_see_the_others(
    worlds: Worlds, base: type[Group]
) -> None:
    """``put_signal`` and the locks do not go through public methods either."""
    plain = worlds(2, link=None if base is Group else emu.Link(latency=1e-6))[0]
    watching = type("Watching", (base,), dict.fromkeys(BLOCKING, refuse))(plain.identity)
    array, words = watching.alloc(2, np.int64), watching.alloc(2, np.int64)
    two, result = np.arange(2), np.zeros(2, np.int64)
    watching.put_nbi(array, two, 1)
    watching.get_nbi(array, 1, result)
    assert result.tolist() == [0, 1]
    watching.put_signal(array, two, 1, words, 1)
    watching.put_signal_nbi(array, two, 1, words, 2)
    watching.fetch_add_nbi(result, words, 1, 1)
    watching.swap_nbi(result, words, 1, 1)
    watching.compare_swap_nbi(result, words, 1, 1, 1)
    watching.fetch_nbi(result, words, 1, out_index=1)
    assert result.tolist() == [1, 1]
    lock = watching.alloc(1, np.int64)
    watching.set_lock(lock)
    watching.clear_lock(lock)
    assert watching.test_lock(lock)
