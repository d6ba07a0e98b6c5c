"""Which values of a kernel may depend on memory."""

from __future__ import annotations

import numpy as np
import pytest

from emu.tile.ir import Builder, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes.reads import find_reads
from emu.tile.types import I1, I32, Pointer


def test_values_that_were_loaded_and_what_is_made_of_them() -> None:
    x, n = Value(Pointer(I32)), Value(I32)
    b = Builder(Region([x, n]))
    loaded = b.load(x)
    sum_ = b.binary(Code.ADD, loaded, n)
    tile = b.splat(sum_, (8,))
    pure = b.binary(Code.ADD, b.arange(0, 8), b.splat(n, (8,)))
    old = b.atomic_rmw(Rmw.ADD, x, n)
    swapped = b.atomic_cas(x, n, n)
    moved = b.ptr_add(x, loaded)
    b.store(x, n)
    b.return_()
    found = find_reads(b.region)
    assert {loaded, sum_, tile, old, swapped, moved} <= found
    assert not {x, n, pure} & found


def test_conditions_do_not_count_but_what_branches_yield_does() -> None:
    x, n = Value(Pointer(I32)), Value(I32)
    b = Builder(Region([x, n]))
    loaded = b.load(x)
    then, other = Region(), Region()
    with b.into(then):
        b.yield_(n, loaded)
    with b.into(other):
        b.yield_(n, n)
    condition = b.compare(Code.GT, loaded, n)
    first, second = b.if_(condition, then, other)
    b.return_()
    found = find_reads(b.region)
    assert condition in found
    assert first not in found
    assert second in found


@pytest.mark.parametrize("length", [1, 2, 5])
def test_values_that_go_round_a_loop_are_followed_to_the_end(length: int) -> None:
    """Each round hands values on by one place, so that it takes as many looks as there are."""
    x, n = Value(Pointer(I32)), Value(I32)
    b = Builder(Region([x, n]))
    one, none = b.constant(1, I32), b.constant(0, I32)
    with b.for_(none, n, one, (n,) * (length + 1)) as loop:
        *others, last = loop.carried
        b.yield_(*others[1:], last, b.load(x)) if others else b.yield_(b.load(x))
    with b.for_(none, n, one, (n, n)) as pure:
        b.yield_(pure.carried[1], pure.carried[0])
    b.return_()
    found = find_reads(b.region)
    assert set(loop.results) <= found
    assert not set(pure.results) & found


def test_while_loops_pass_on_what_their_condition_part_yields() -> None:
    x, n = Value(Pointer(I32)), Value(I32)
    b = Builder(Region([x, n]))
    before, after = Region([Value(I32), Value(I32)]), Region([Value(I32), Value(I32)])
    with b.into(before):
        flag = b.compare(Code.LT, before.arguments[0], n)
        b.yield_(flag, *before.arguments)
    with b.into(after):
        b.yield_(after.arguments[0], b.load(x))
    first, second = b.while_((n, n), before, after)
    b.return_()
    found = find_reads(b.region)
    assert first not in found
    assert {second, before.arguments[1], after.arguments[1]} <= found
    assert flag not in found
    assert flag.type == I1


@pytest.mark.parametrize("seed", range(20))
def test_random_straight_code_is_a_closure(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = Value(Pointer(I32))
    b = Builder(Region([x, Value(I32)]))
    values, wanted = [b.region.arguments[1]], set()
    for _ in range(30):
        if random.random() < 0.1:
            values.append(b.load(x))
            wanted.add(values[-1])
            continue
        first, second = (values[int(random.integers(len(values)))] for _ in range(2))
        values.append(b.binary(Code.ADD, first, second))
        if first in wanted or second in wanted:
            wanted.add(values[-1])
    b.return_()
    assert find_reads(b.region) & set(values) == wanted
