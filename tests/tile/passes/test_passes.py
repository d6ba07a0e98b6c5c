"""Passes leave valid programs that do the same, and leave out what they say."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from tile_cases import CASES, QUICK
from tile_harness import Program
from tile_programs import programs
from variants import thorough

from emu.tile import reference
from emu.tile.passes import (
    DEFAULT,
    Pass,
    simplify,
)
from emu.tile.text import parse_module, print_module
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


@pytest.mark.parametrize("program", thorough(CASES, *QUICK), ids=str)
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
