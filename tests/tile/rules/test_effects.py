"""Wrong operations on memory, control and order are refused."""

from __future__ import annotations

import pytest
from tile_refusals import check_refused

WRONG = {
    "%r = ptr_add %p, %f : ptr<f32>": "it takes integers as offsets",
    "%r = ptr_add %p, %t : ptr<f32>": "its operands must be (ptr<f32>, i32)",
    "%r = load %i : i32": "its first operand must be a pointer",
    "%r = load %p, %i : f32": "its operands must be (ptr<f32>, i1)",
    "%r = load %p, %c, %i : f32": "its operands must be (ptr<f32>, i1, f32)",
    "store %p, %i": "its operands must be (ptr<f32>, f32)",
    '%r = atomic_rmw %p, %f {kind = "nand"} : f32': "there is no kind 'nand'",
    '%r = atomic_rmw %p, %f {kind = "xor"} : f32': "xor takes integers, but got f32",
    "%r = atomic_cas %p, %f, %i : f32": "its operands must be (ptr<f32>, f32, f32)",
    "%r = for %i, %i, %f, %i : i32 (%a: i32, %b: i32) {\nyield %b\n}": "its bounds must be",
    "%r = for %f, %f, %f, %i : i32 (%a: f32, %b: i32) {\nyield %b\n}": "bounds must be integers",
    "%r = for %i, %i, %i, %i : i32 (%a: i32) {\nyield %a\n}": "the region's arguments must be",
    "%r = for %i, %i, %i, %i : i32 (%a: i32, %b: i32) {\nyield\n}": "what the region yields must",
    "for %i, %i, %i (%a: i32) {\n}": "its region must end with yield",
    "while () {\nyield\n} () {\nyield\n}": "the first region must yield a condition",
    "while %i (%a: i32) {\nyield %i, %i\n} (%b: i32) {\nyield %b\n}": "the condition must be i1",
    "if %i () {\nyield\n} () {\nyield\n}": "the condition must be i1, but got i32",
    "%r = if %c : i32 () {\nyield %i\n} () {\nyield\n}": "what the region yields must be (i32)",
    "barrier %i": "it must have 0 operands, but got 1",
    "%k = join_tokens %i : token\n%r = add %k, %k : token": "its operands must not be tokens",
    "%r = after %i, %i : i32": "its operands must be (i32, token)",
    'assert %i {message = "m"}': "it takes i1, but got i32",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    check_refused(line, WRONG[line])
