"""Where the addresses of a kernel may come from."""

from __future__ import annotations

from emu.tile.ir import Builder, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.origins import UNKNOWN, find_origins
from emu.tile.types import F32, I1, I32, I64, Pointer


def test_pointers_keep_their_origins_through_arithmetic_and_loops() -> None:
    x, y = Value(Pointer(F32)), Value(Pointer(F32))
    n, flag = Value(I32), Value(I1)
    b = Builder(Region([x, y, n, flag]))
    one, none = b.constant(1, I32), b.constant(0, I32)
    tile = b.ptr_add(b.splat(x, (8,)), b.arange(0, 8))
    either = b.select(flag, x, y)
    with b.for_(none, n, one, (x, y, x)) as swapped:
        first, second, moved = swapped.carried
        b.yield_(second, first, b.ptr_add(moved, one))
    then, other = Region(), Region()
    with b.into(then):
        b.yield_(y)
    with b.into(other):
        b.yield_(b.cast(b.cast(x, I64), Pointer(F32)))
    (chosen,) = b.if_(flag, then, other)
    before, after = Region([Value(Pointer(F32))]), Region([Value(Pointer(F32))])
    with b.into(before):
        b.yield_(flag, before.arguments[0])
    with b.into(after):
        b.yield_(b.ptr_add(after.arguments[0], one))
    (last,) = b.while_((y,), before, after)
    b.return_()
    found = find_origins(b.region)
    assert found[tile] == {0}
    assert found[either] == {0, 1}
    assert [found[v] for v in swapped.results] == [{0, 1}, {0, 1}, {0}]
    assert found[chosen] == {1, UNKNOWN}
    assert found[last] == {1}


def test_pointers_from_memory_and_integers_are_unknown() -> None:
    table, number = Value(Pointer(Pointer(F32))), Value(I64)
    b = Builder(Region([table, number]))
    loaded = b.load(table)
    made = b.append(Code.CAST, (number,), (Pointer(F32),), {"rounding": "rtne"}).result
    b.return_()
    found = find_origins(b.region)
    assert found[loaded] == found[made] == {UNKNOWN}
    assert number not in found
