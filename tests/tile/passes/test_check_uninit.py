"""Instrumentation that follows unwritten memory: what is a use, what is none, and in which order memory is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emu.tile import ops
from emu.tile.ir import Builder, Function, Location, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes import simplify
from emu.tile.passes.check_uninit import MESSAGE, Checked, check_uninit
from emu.tile.types import F32, I32, Pointer
from emu.tile.verify import verify

Make = Callable[[Builder, Value, Value, Value], None]


def _check(make: Make) -> tuple[Module, Checked, list[Operation]]:
    """Return an instrumented kernel of ``x: ptr<f32>, indices: ptr<i32>, n: i32``, and its operations."""
    x, indices, n = Value(Pointer(F32)), Value(Pointer(I32)), Value(I32)
    b = Builder(Region([x, indices, n]))
    b.location = Location("kernel.py", 3, 5, "kernel")
    make(b, x, indices, n)
    b.return_()
    module = simplify(Module({"kernel": Function("kernel", b.region)}))
    checked = check_uninit(module)
    verify(module)
    return module, checked, list(module.kernel.body.walk())


def _uses(make: Make) -> list[str]:
    return [use.what for use in _check(make)[1].uses]


def test_a_kernel_that_uses_nothing_of_memory_has_no_uses() -> None:
    def make(b: Builder, x: Value, indices: Value, n: Value) -> None:
        b.store(b.ptr_add(x, n), b.constant(1.0, F32))

    module, checked, operations = _check(make)
    assert checked.uses == checked.loads == ()
    assert len(module.kernel.body.arguments) == 4
    # It marks what it writes: the shadow first, so that nobody takes what is announced for unwritten.
    stores = [o for o in operations if o.code is Code.STORE]
    assert len(stores) == 2
    assert [o in checked.added for o in stores] == [True, False]


def test_shadows_are_read_after_the_memory() -> None:
    def make(b: Builder, x: Value, indices: Value, n: Value) -> None:
        b.store(b.ptr_add(x, n), b.load(x))

    _, checked, operations = _check(make)
    (load,) = (o for o in operations if o.code is Code.LOAD and o not in checked.added)
    after = operations[operations.index(load) :]
    assert any(o.code is Code.LOAD and o in checked.added for o in after)
    assert [use.what for use in checked.uses] == ["stored value"]
    assert checked.uses[0].location == Location("kernel.py", 3, 5, "kernel")
    assert (checked.loads[0].verb, checked.loads[0].argument) == ("load", 0)


def _address(b: Builder, x: Value, indices: Value, n: Value) -> None:
    b.store(b.ptr_add(x, b.load(indices)), b.constant(1.0, F32))


def _mask(b: Builder, x: Value, indices: Value, n: Value) -> None:
    mask = b.compare(Code.LT, b.load(indices), n)
    b.store(x, b.constant(1.0, F32), mask)


def _branch(b: Builder, x: Value, indices: Value, n: Value) -> None:
    then, other = Region(), Region()
    with b.into(then):
        b.store(x, b.constant(1.0, F32))
        b.yield_()
    with b.into(other):
        b.yield_()
    b.if_(b.compare(Code.LT, b.load(indices), n), then, other)


def _while(b: Builder, x: Value, indices: Value, n: Value) -> None:
    before, after = Region([Value(I32)]), Region([Value(I32)])
    with b.into(before):
        b.yield_(b.compare(Code.LT, b.load(indices), before.arguments[0]), before.arguments[0])
    with b.into(after):
        b.yield_(after.arguments[0])
    b.while_((n,), before, after)


def _loop(b: Builder, x: Value, indices: Value, n: Value) -> None:
    none, one = b.constant(0, I32), b.constant(1, I32)
    with b.for_(none, b.load(indices), one, ()) as _:
        b.store(x, b.constant(1.0, F32))
        b.yield_()


def _atomic(b: Builder, x: Value, indices: Value, n: Value) -> None:
    b.atomic_rmw(Rmw.ADD, indices, n)


def _assertion(b: Builder, x: Value, indices: Value, n: Value) -> None:
    b.assert_(b.compare(Code.LT, b.load(indices), n), "no")  # noqa: PT009 - emits an ASSERT


def _carried(b: Builder, x: Value, indices: Value, n: Value) -> None:
    none, one = b.constant(0, I32), b.constant(1, I32)
    with b.for_(none, n, one, (b.constant(0.0, F32),)) as loop:
        b.yield_(b.binary(Code.ADD, loop.carried[0], b.load(x)))
    b.store(x, loop.results[0])


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (_address, ["address"]),
        (_mask, ["mask"]),
        (_branch, ["condition"]),
        (_while, ["condition"]),
        (_loop, ["bounds of a loop"]),
        (_atomic, ["operand of an atomic operation"]),
        (_assertion, ["assertion"]),
        (_carried, ["stored value"]),
    ],
)
def test_each_use_is_found_once(make: Make, wanted: list[str]) -> None:
    assert _uses(make) == wanted


def test_what_an_exchange_finds_counts_only_if_it_is_used() -> None:
    def forgets(b: Builder, x: Value, indices: Value, n: Value) -> None:
        b.atomic_rmw(Rmw.EXCHANGE, indices, n)

    def uses(b: Builder, x: Value, indices: Value, n: Value) -> None:
        old = b.atomic_rmw(Rmw.EXCHANGE, indices, n)
        b.store(b.ptr_add(indices, n), old)

    assert _uses(forgets) == []
    assert _uses(uses) == ["stored value"]


def test_a_value_that_nobody_uses_is_no_use() -> None:
    def make(b: Builder, x: Value, indices: Value, n: Value) -> None:
        loaded = b.load(indices)
        b.select(b.compare(Code.LT, n, n), loaded, n)
        b.store(x, b.constant(1.0, F32))

    assert _uses(make) == []


def test_all_that_is_added_is_known_and_stops_say_why() -> None:
    _, checked, operations = _check(_carried)
    theirs = [o for o in operations if o.code in ops.MEMORY and o not in checked.added]
    assert [o.code for o in theirs] == [Code.LOAD, Code.STORE]
    messages = [o.attributes["message"] for o in operations if o.code is Code.ASSERT]
    assert messages == [MESSAGE]
    assert all(o.code in ops.MEMORY for o in checked.added)
