"""Passes leave valid programs that do the same, and leave out what they say."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Kernel, Program, values
from tile_programs import programs

from emu.tile import reference
from emu.tile.ir import Location, Module, Value
from emu.tile.ops import Code
from emu.tile.passes import (
    DEFAULT,
    CommonSubexpressions,
    DeadCode,
    FoldConstants,
    Inline,
    Pass,
    simplify,
)
from emu.tile.text import parse_module, print_module
from emu.tile.types import F16, F32, F64, I1, I8, I32, U8, U64, DType
from emu.tile.verify import verify

ORDERS = [(p,) for p in DEFAULT] + [DEFAULT, DEFAULT[::-1]]


def unchanged(program: Program, passes: tuple[Pass, ...]) -> None:
    """Check that passes leave the module alone and give one that does the same, bit by bit."""
    before = print_module(program.module)
    module = simplify(program.module, passes)
    assert print_module(program.module) == before
    verify(module)
    exact = dataclasses.replace(program, inexact=frozenset())
    exact.check(lambda _, arguments, grid: reference.run(module, arguments, grid))


@pytest.mark.parametrize("program", CASES, ids=str)
def test_hand_written_programs_do_the_same(program: Program) -> None:
    unchanged(program, DEFAULT)


@pytest.mark.parametrize(
    "passes",
    [*(pytest.param(order, marks=pytest.mark.slow) for order in ORDERS[:-1]), ORDERS[-1]],
    ids=lambda p: "-".join(type(o).__name__ for o in p),
)
def test_random_programs_do_the_same(passes: tuple[Pass, ...]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(programs(steps=14))
    def check(program: Program) -> None:
        unchanged(program, passes)

    check()


def count(module: Module) -> Counter[Code]:
    return Counter(o.code for f in module.functions.values() for o in f.body.walk())


def operations(k: Kernel, *passes: Pass) -> Counter[Code]:
    """Apply passes to a kernel and count what is left."""
    module = simplify(k.program("p").module, passes)
    verify(module)
    return count(module)


# ---- inline


def test_inlined_operations_say_where_they_were_called_from() -> None:
    k = Kernel()
    b = k.builder
    here, there, outer = (
        Location(f, n, 1, f) for n, f in ((3, "inner"), (5, "middle"), (9, "top"))
    )
    b.location = here
    negative = k.function("inner", lambda x: [b.unary(Code.NEG, x)], I32)
    b.location = there
    twice = k.function("middle", lambda x: b.call(negative, b.call(negative, [x])), I32)
    b.location = outer
    k.result(b.call(twice, [k.argument(I32, 5)])[0])
    module = Inline().apply(k.program("p").module)
    assert list(module.functions) == ["kernel"]
    places = [o.location for o in module.kernel.body.operations if o.code is Code.NEG]
    chain = dataclasses.replace(here, caller=dataclasses.replace(there, caller=outer))
    assert places == [chain, chain]


# ---- dead code


def test_what_nobody_uses_is_dropped() -> None:
    k = Kernel()
    b = k.builder
    x = k.load(values(F32, 8))
    b.unary(Code.EXP, x)
    with b.for_(k.number(0), k.number(3), k.number(1), [x]) as loop:
        b.yield_(b.unary(Code.NEG, loop.carried[0]))
    b.if_(k.number(1, I1), k.region(lambda: [x]), k.region(lambda: [x]))
    b.reduce([x], 0, lambda a, c: [b.binary(Code.ADD, a, c)])
    k.function("unused", list)
    assert operations(k, DeadCode()) == {Code.RETURN: 1}


def test_effects_are_kept_with_what_surrounds_them() -> None:
    k = Kernel()
    b = k.builder
    out = k.pointer(np.zeros(1, np.int32))
    with b.for_(k.number(0), k.number(3), k.number(1), []) as loop:
        region = k.region(lambda: [b.store(out, loop.index)][:0])
        b.if_(b.compare(Code.LT, loop.index, k.number(2)), region, k.region(list))
        b.yield_()
    left = operations(k, DeadCode())
    assert (left[Code.FOR], left[Code.IF], left[Code.STORE], left[Code.LT]) == (1, 1, 1, 1)


def test_carried_values_that_only_feed_themselves_are_dropped() -> None:
    k = Kernel()
    b = k.builder
    carried = [k.number(n) for n in range(4)]
    with b.for_(k.number(0), k.argument(I32, 3), k.number(1), carried) as loop:
        first, second, third, fourth = loop.carried
        b.yield_(second, first, b.unary(Code.NEG, third), fourth)
    k.result(loop.results[0])
    module = DeadCode().apply(k.program("p").module)
    verify(module)
    (loop_,) = (o for o in module.kernel.body.operations if o.code is Code.FOR)
    assert len(loop_.results) == 2
    assert count(module)[Code.NEG] == 0


def test_unused_results_of_branches_are_dropped() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 1)
    then = k.region(lambda: [b.unary(Code.NEG, x), b.unary(Code.NOT, x)])
    results = b.if_(k.argument(I1, 1), then, k.region(lambda: [x, x]))
    k.result(results[1])
    left = operations(k, DeadCode())
    assert (left[Code.NEG], left[Code.NOT]) == (0, 1)


def test_loops_that_may_wait_for_others_are_kept() -> None:
    k = Kernel()
    b = k.builder
    flag = k.pointer(np.ones(1, np.int32))
    before = k.region(lambda: [b.compare(Code.EQ, b.load(flag), k.number(0))])
    b.while_([], before, k.region(list))
    left = operations(k, DeadCode())
    assert (left[Code.WHILE], left[Code.LOAD]) == (1, 1)


# ---- constants


def folded(build: Callable[[Kernel], Value]) -> object:
    """Return the number to which what is stored was folded."""
    k = Kernel()
    k.result(build(k))
    module = simplify(k.program("p").module, (FoldConstants(), DeadCode()))
    verify(module)
    (store,) = (o for o in module.kernel.body.operations if o.code is Code.STORE)
    owner = store.operands[1].owner
    assert owner is not None
    assert owner.code is Code.CONSTANT
    return owner.attributes["value"]


def test_constants_are_computed_in_their_dtype() -> None:
    def binary(code: Code, a: float, b: float, dtype: DType) -> object:
        return folded(lambda k: k.builder.binary(code, k.number(a, dtype), k.number(b, dtype)))

    assert binary(Code.ADD, 120, 10, I8) == -126
    assert binary(Code.MUL, 2**63, 2, U64) == 0
    assert binary(Code.DIV, -7, 2, I32) == -3
    assert binary(Code.SHL, 1, 40, I32) == 0
    assert binary(Code.ADD, 2048, 1, F16) == 2048.0
    assert binary(Code.DIV, 1, 3, F32) == float(np.float32(1) / np.float32(3))
    assert folded(lambda k: k.builder.cast(k.number(300, I32), U8)) == 44
    assert folded(lambda k: k.builder.compare(Code.LT, k.number(1), k.number(2))) is True
    assert folded(lambda k: k.builder.splat(k.builder.unary(Code.NEG, k.number(3)), (4, 5))) == -3


def test_what_may_differ_between_machines_is_not_folded() -> None:
    k = Kernel()
    b = k.builder
    k.result(b.unary(Code.EXP, k.number(1, F32)))
    k.result(b.binary(Code.SUB, k.number(float("inf"), F64), k.number(float("inf"), F64)))
    left = operations(k, *DEFAULT)
    assert (left[Code.EXP], left[Code.SUB]) == (1, 1)


@pytest.mark.parametrize("dtype", [I32, U8, I1, F32], ids=str)
def test_neutral_elements_are_left_out_of_integers_alone(dtype: DType) -> None:
    k = Kernel()
    b = k.builder
    x = k.load(values(dtype, 8))
    zero, one = k.number(0, dtype, (8,)), k.number(1, dtype, (8,))
    for code, other in ((Code.ADD, zero), (Code.SUB, zero), (Code.MUL, one)):
        k.result(b.binary(code, x, other))
    k.result(b.binary(Code.ADD, zero, x))
    left = operations(k, *DEFAULT)
    kept = left[Code.ADD] + left[Code.SUB] + left[Code.MUL]
    assert kept == (3 if dtype.is_float else 0)  # zero + x is x + zero


def test_masks_that_are_always_true_vanish() -> None:
    k = Kernel()
    b = k.builder
    mask = b.compare(Code.LT, b.arange(0, 8), b.splat(k.argument(I32, 5), (8,)))
    k.result(b.binary(Code.AND, mask, b.splat(k.number(1, I1), (8,))))
    k.result(b.binary(Code.OR, b.splat(k.number(0, I1), (8,)), mask))
    left = operations(k, *DEFAULT)
    assert (left[Code.AND], left[Code.OR]) == (0, 0)


def test_branches_and_loops_that_are_decided_vanish() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 4)
    never = b.compare(Code.GT, k.number(1), k.number(2))
    then, other = k.region(lambda: [b.unary(Code.NEG, x)]), k.region(lambda: [b.unary(Code.NOT, x)])
    (result,) = b.if_(never, then, other)
    with b.for_(k.number(3), k.number(3), k.number(1), [result]) as loop:
        b.yield_(b.unary(Code.ABS, loop.carried[0]))
    k.result(loop.results[0])
    b.assert_(k.number(1, I1), "holds")  # noqa: PT009 - the builder's
    left = operations(k, FoldConstants())
    gone = (Code.IF, Code.NEG, Code.FOR, Code.ABS, Code.ASSERT)
    assert [left[code] for code in gone] == [0] * 5
    assert left[Code.NOT] == 1


# ---- common subexpressions


def test_equal_expressions_are_computed_once() -> None:
    k = Kernel()
    b = k.builder
    x, y = k.argument(F32, 1.5), k.argument(F32, 2.5)
    k.result(b.unary(Code.EXP, b.binary(Code.ADD, x, y)))
    k.result(b.unary(Code.EXP, b.binary(Code.ADD, y, x)))
    k.result(b.binary(Code.SUB, x, y))
    k.result(b.binary(Code.SUB, y, x))
    left = operations(k, CommonSubexpressions())
    assert (left[Code.EXP], left[Code.ADD], left[Code.SUB]) == (1, 1, 2)


def test_constants_that_compare_equal_are_not_one() -> None:
    k = Kernel()
    for number in (0.0, -0.0, 0.0):
        k.result(k.number(number, F32))
    for number in (1, True):
        k.result(k.number(number))
    for number in (1, 1):
        k.result(k.number(number, I8))
    assert operations(k, CommonSubexpressions())[Code.CONSTANT] == 5


def test_expressions_are_known_in_nested_regions_and_not_outside() -> None:
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 5)

    def negative() -> list[Value]:
        return [b.unary(Code.NEG, x)]

    (inside,) = b.if_(k.argument(I1, 1), k.region(negative), k.region(negative))
    k.result(inside)
    assert operations(k, CommonSubexpressions())[Code.NEG] == 2
    k = Kernel()
    b = k.builder
    x = k.argument(I32, 5)
    k.result(negative()[0])
    (inside,) = b.if_(k.argument(I1, 1), k.region(negative), k.region(negative))
    k.result(inside)
    assert operations(k, CommonSubexpressions())[Code.NEG] == 1


def test_loads_are_not_merged() -> None:
    k = Kernel()
    b = k.builder
    x = k.pointer(np.ones(1, np.int32))
    k.result(b.load(x))
    b.store(x, k.number(2))
    k.result(b.load(x))
    assert operations(k, CommonSubexpressions())[Code.LOAD] == 2


def test_the_passes_together() -> None:
    module = parse_module("""
func @kernel(%p: ptr<f32>, %n: i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %m = add %n, %zero : i32
  %a, %b = call %m {callee = "pair"} : i32, i32
  %c, %d = call %n {callee = "pair"} : i32, i32
  %e = mul %c, %one : i32
  %q = ptr_add %p, %e : ptr<f32>
  %x = constant {value = 1.5} : f32
  store %q, %x
  return
}
func @pair(%n: i32) -> (i32, i32) {
  %two = constant {value = 2} : i32
  %twice = mul %n, %two : i32
  %other = sub %n, %two : i32
  return %twice, %other
}
""")
    verify(module)
    assert print_module(simplify(module)).splitlines() == [
        "func @kernel(%p: ptr<f32>, %n: i32) {",
        "  %two = constant {value = 2} : i32",
        "  %twice = mul %n, %two : i32",
        "  %q = ptr_add %p, %twice : ptr<f32>",
        "  %x = constant {value = 1.5} : f32",
        "  store %q, %x",
        "  return",
        "}",
    ]
