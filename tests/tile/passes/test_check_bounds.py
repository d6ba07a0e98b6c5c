"""Instrumentation that checks addresses: what is checked, what each access tells, and what is left as it is.

What is found when kernels run is compared with a slow checker in tests/triton/runtime/test_bounds_property.py.
"""

from __future__ import annotations

from emu.tile import ops
from emu.tile.ir import Builder, Function, Location, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes.check_bounds import MESSAGE, check_bounds, describe_access, mask_of
from emu.tile.passes.origins import find_origins
from emu.tile.types import F16, F32, I32, I64, Pointer
from emu.tile.verify import verify


def _kernel() -> tuple[Module, dict[str, Operation]]:
    x, y, n = Value(Pointer(F32)), Value(Pointer(F16)), Value(I32)
    b = Builder(Region([x, y, n]))
    found = {}
    b.location = Location("kernel.py", 1, 2, "kernel")
    lanes = b.arange(0, 8)
    mask = b.compare(Code.LT, lanes, b.splat(n, (8,)))
    loaded = b.load(b.ptr_add(b.splat(x, (8,)), lanes), mask)
    found["load"] = loaded.owner
    b.store(b.ptr_add(b.splat(x, (8,)), lanes), loaded)
    b.atomic_rmw(Rmw.ADD, x, b.constant(1.0, F32))
    either = b.select(b.compare(Code.LT, n, n), b.cast(y, I64), b.cast(x, I64))
    found["far"] = b.load(b.cast(either, Pointer(F16))).owner
    b.store(y, b.constant(0.0, F16))
    b.return_()
    return Module({"kernel": Function("kernel", b.region)}), found  # type: ignore[return-value]  # loads have owners


def test_accesses_say_what_they_are() -> None:
    module, found = _kernel()
    origins = find_origins(module.kernel.body)
    load, far = (describe_access(found[n], origins) for n in ("load", "far"))
    assert (load.verb, load.argument, load.element, load.size) == ("load", 0, "f32", 4)
    assert (load.shape, load.is_masked) == ((8,), True)
    assert load.location == Location("kernel.py", 1, 2, "kernel")
    assert (far.argument, far.element, far.shape, far.is_masked) == (None, "f16", (), False)
    assert mask_of(found["load"]) is found["load"].operands[1]
    assert mask_of(found["far"]) is None


def test_all_accesses_are_checked_and_the_module_is_valid() -> None:
    for keep_going in (False, True):
        module, _ = _kernel()
        before = [o.code for o in module.kernel.body.walk() if o.code in ops.MEMORY]
        checked, accesses = check_bounds(module, keep_going=keep_going)
        verify(checked)
        assert checked is module
        assert len(accesses) == len(before) == 5
        assert sorted(a.verb for a in accesses) == ["atomic", "load", "load", "store", "store"]
        assert len(checked.kernel.body.arguments) == 4
        stops = [o for o in checked.kernel.body.walk() if o.code is Code.ASSERT]
        assert {o.attributes["message"] for o in stops} == (set() if keep_going else {MESSAGE})


def test_trusted_operations_are_left_alone() -> None:
    module, found = _kernel()
    _, accesses = check_bounds(module, trusted=frozenset(found.values()))
    assert sorted(a.verb for a in accesses) == ["atomic", "store", "store"]
