"""Which arguments a kernel may write through."""

from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import F32, I32, Pointer
from emu.triton.runtime.stores import exchanges_lanes, stored_arguments


def module(count, build, *extra):
    arguments = [Value(Pointer(F32)) for _ in range(count)]
    region = Region(arguments)
    builder = Builder(region)
    build(builder, *arguments)
    builder.return_()
    made = Module()
    made.functions["kernel"] = Function("kernel", region)
    for function in extra:
        made.functions[function.name] = function
    return made


def test_a_store_counts_and_a_load_does_not():
    def build(b, x, y):
        b.store(y, b.load(x))

    assert stored_arguments(module(2, build)) == [False, True]


def test_pointers_are_followed_through_arithmetic_and_shapes():
    def build(b, x, y, z):
        pointers = b.ptr_add(b.splat(y, (8,)), b.arange(0, 8))
        b.store(b.reshape(pointers, (2, 4)), b.load(b.splat(x, (2, 4))))
        b.atomic_rmw(Rmw.ADD, z, b.constant(1.0, F32))

    assert stored_arguments(module(3, build)) == [False, True, True]


def test_a_pointer_read_from_memory_comes_from_nothing():
    table = Value(Pointer(Pointer(F32)))
    region = Region([table])
    builder = Builder(region)
    builder.store(builder.load(table), builder.constant(1.0, F32))
    builder.return_()
    made = Module()
    made.functions["kernel"] = Function("kernel", region)
    assert stored_arguments(made) == [False]


def test_pointers_are_followed_through_loops():
    def build(b, x, y, z):
        zero, ten, one = (b.constant(n, I32) for n in (0, 10, 1))
        with b.for_(zero, ten, one, [x, y]) as loop:
            first, second = loop.carried
            b.yield_(second, first)  # they change places: both are written
        b.store(loop.results[0], b.load(z))

    assert stored_arguments(module(3, build)) == [True, True, False]


def test_pointers_are_followed_into_calls():
    inner = [Value(Pointer(F32)), Value(Pointer(F32))]
    body = Region(inner)
    builder = Builder(body)
    builder.store(inner[1], builder.load(inner[0]))
    builder.return_(inner[1])
    copy = Function("copy", body, (Pointer(F32),))

    def build(b, x, y, z):
        b.call(copy, (x, y))

    assert stored_arguments(module(3, build, copy)) == [False, True, False]


def test_lanes_exchange_values_in_functions_and_loops_too():
    def copies(b, x, y):
        b.store(y, b.load(x))

    def sums(b, x, y):
        zero, ten, one = (b.constant(n, I32) for n in (0, 10, 1))
        with b.for_(zero, ten, one, []):
            tile = b.load(b.splat(x, (8,)))
            b.store(y, b.reduce([tile], 0, lambda p, q: [b.binary(Code.ADD, p, q)])[0])
            b.yield_()

    assert not exchanges_lanes(module(2, copies))
    assert exchanges_lanes(module(2, sums))
