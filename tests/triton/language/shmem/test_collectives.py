"""Collectives inside of kernels against NumPy, over teams, dtypes, operations and lengths."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import emu
from emu import shmem, triton


@triton.jit
def gathers(dst, src, nbytes, team):
    shmem.all_gather(dst, src, nbytes, team)


@triton.jit
def exchanges(dst, src, nbytes, team):
    shmem.all_to_all(dst, src, nbytes, team)


@triton.jit
def sends(dst, src, nbytes, root, team):
    shmem.broadcast(dst, src, nbytes, root, team)


def moves(count: int) -> list[bool]:
    """Compare all three with the World's own collectives, on all PEs and on some."""
    world = emu.world()
    found: list[bool] = []
    groups = [world]
    if world.my_pe >= world.n_pes - 2:
        groups.append(world.group("last two", [world.n_pes - 1, world.n_pes - 2]))
    for group in groups:
        n, me = group.n_pes, group.my_pe
        src, dst = (group.alloc(n * count, np.int16, name=name) for name in ("src", "dst"))
        rng = np.random.default_rng(world.my_pe)
        src.local[:] = rng.integers(-999, 999, n * count)
        group.barrier()
        mine, size, team = src.local.copy(), 2 * count, shmem.team(group)
        gathers[(1,)](dst.local, src.local, size, team)
        found.append(np.array_equal(dst.local, group.all_gather(mine[:count]).reshape(-1)))
        exchanges[(1,)](dst.local, src.local, size, team)
        expected = group.all_to_all(mine.reshape(n, count)).reshape(-1)
        found.append(np.array_equal(dst.local, expected))
        sends[(1,)](dst.local, src.local, size, n - 1, team)
        expected = group.broadcast(mine[:count], root=n - 1)
        found.append(np.array_equal(dst.local[:count], expected))
        assert np.array_equal(src.local, mine), me
    world.barrier()
    return found


@pytest.mark.parametrize(("n_pes", "count"), [(2, 1), (3, 1000), (4, 77)])
def test_bytes_move_as_the_worlds_collectives_move_them(n_pes: int, count: int) -> None:
    found = emu.launch(moves, n_pes, args=(count,))
    assert found == [[True] * (3 if pe < n_pes - 2 else 6) for pe in range(n_pes)]


@triton.jit
def reduces(dst, src, count, op: triton.language.constexpr):
    shmem.reduce(dst, src, count, op)


NUMPY: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def of_pe(pe: int, count: int, dtype: Any) -> Any:
    rng = np.random.default_rng(pe)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, count).astype(dtype)
    return rng.standard_normal(count).astype(dtype)


def reduces_all(count: int, cases: list[tuple[str, Any]]) -> list[str]:
    """Return what differs from NumPy, combined in the order of the PEs; each result once in place."""
    world = emu.world()
    wrong = []
    for op, dtype in cases:
        src, dst = world.alloc(count, dtype), world.alloc(count, dtype)
        src.local[:] = of_pe(world.my_pe, count, dtype)
        parts = [of_pe(pe, count, dtype) for pe in range(world.n_pes)]
        expected = reduce(NUMPY[op], parts).astype(dtype)
        reduces[(1,)](dst.local, src.local, count, op)
        reduces[(1,)](src.local, src.local, count, op)
        for which, got in (("dst", dst.local), ("in place", src.local)):
            if got.tobytes() != expected.tobytes():
                wrong.append(f"{op} {dtype} {which}")
        world.barrier()
    return wrong


CASES = [
    *((op, np.int32) for op in NUMPY),
    *((op, np.float32) for op in ("sum", "prod", "min", "max")),
    *((op, np.uint8) for op in ("sum", "max", "xor")),
    ("sum", np.float64),
    ("sum", np.float16),
    ("sum", ml_dtypes.bfloat16),
]


@pytest.mark.parametrize(("n_pes", "count"), [(2, 1), (3, 257), (4, 1023)])
def test_reductions_combine_in_the_order_of_the_pes(n_pes: int, count: int) -> None:
    assert emu.launch(reduces_all, n_pes, args=(count, CASES)) == [[]] * n_pes


def refused() -> list[str]:
    world = emu.world()
    ints, floats = world.alloc(8, np.int32), world.alloc(8, np.float32)
    found = []
    for call in (
        lambda: reduces[(1,)](ints.local, ints.local, 8, "mean"),
        lambda: reduces[(1,)](ints.local, floats.local, 8, "sum"),
        lambda: reduces[(1,)](floats.local, floats.local, 8, "xor"),
        lambda: sends[(1,)](ints.local, ints.local, 4, 1, 0),
        lambda: gathers[(1,)](ints.local, np.zeros(4, np.int32), 4, 0),
    ):
        with pytest.raises(Exception, match=r".") as caught:
            call()
        found.append(str(caught.value))
    return found


def test_bad_arguments() -> None:
    (found,) = emu.launch(refused, 1)
    assert "op must be one of 'sum', 'prod'" in found[0]
    assert "dst and src must have one dtype" in found[1]
    assert "xor combines integers" in found[2]
    assert "root must be the number of a member of the team" in found[3]
    assert "src must lie in this PE's symmetric heap" in found[4]
