"""Instrumentation that notes which bytes a kernel touches: of which operations, and in which order."""

from __future__ import annotations

from collections.abc import Callable

from emu.tile import ops
from emu.tile.ir import Builder, Function, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.passes.record_extents import record_extents
from emu.tile.types import F32, I64, Pointer
from emu.tile.verify import verify

Make = Callable[[Builder, Value, Value], None]


def _recorded(make: Make) -> tuple[list[Operation], set[Operation]]:
    """Return the memory operations of an instrumented kernel of ``x: ptr<f32>, n: i64``, and which were there before."""
    x, n = Value(Pointer(F32)), Value(I64)
    b = Builder(Region([x, n]))
    make(b, x, n)
    b.return_()
    module = simplify(Module({"kernel": Function("kernel", b.region)}))
    own = {o for o in module.kernel.body.walk() if o.code in ops.MEMORY}
    record_extents(module, own)
    verify(module)
    assert len(module.kernel.body.arguments) == 3
    return [o for o in module.kernel.body.walk() if o.code in ops.MEMORY], own


def test_spans_are_noted_before_memory_is_touched() -> None:
    operations, own = _recorded(lambda b, x, n: b.store(b.ptr_add(x, n), b.constant(1.0, F32)))
    assert [o.code for o in operations if o not in own] == [Code.LOAD, Code.ATOMIC_RMW] * 2
    assert operations[-1] in own


def test_operations_of_other_checks_are_left_out() -> None:
    x = Value(Pointer(F32))
    b = Builder(Region([x]))
    b.store(x, b.constant(1.0, F32))
    b.return_()
    module = Module({"kernel": Function("kernel", b.region)})
    record_extents(module, ())
    assert [o.code for o in module.kernel.body.walk() if o.code in ops.MEMORY] == [Code.STORE]


def test_a_pointer_that_was_made_of_an_integer_is_left_out() -> None:
    def make(b: Builder, x: Value, n: Value) -> None:
        b.store(b.cast(n, Pointer(F32)), b.constant(1.0, F32))

    operations, own = _recorded(make)
    assert set(operations) == own
