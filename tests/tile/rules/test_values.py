"""Operations that compute from wrong operands are refused."""

from __future__ import annotations

import pytest
from tile_refusals import check_refused

WRONG = {
    "%r = add %i, %f : i32": "its operands must be (i32, i32), but got (i32, f32)",
    "%r = add %i : i32": "it must have 2 operands, but got 1",
    "%r = add %i, %i : i64": "its results must be (i32), but got (i64)",
    "%r = add %p, %p : ptr<f32>": "it takes numbers, but got ptr<f32>",
    "%r = div %c, %c : i1": "it does not take i1",
    "%r = shl %f, %f : f32": "it takes integers or i1, but got f32",
    "%r = pow %i, %i : i32": "it takes floating-point values, but got i32",
    "%r = exp %t : tile<4x8xi32>": "it takes floating-point values",
    "%r = not %f : f32": "it takes integers or i1",
    "%r = neg %c : i1": "it takes integers or floating-point values",
    "%r = lt %t, %t : tile<4x8xi32>": "its results must be (tile<4x8xi1>)",
    "%r = select %i, %f, %f : f32": "its operands must be (i1, f32, f32)",
    "%r = fma %i, %i, %i : i32": "it takes floating-point values",
    "%r = cast %p : i32": "no cast ptr<f32> to i32",
    "%r = cast %t : tile<8x4xf32>": "its results must be (tile<4x8xf32>)",
    "%r = bitcast %f : i64": "widths must be equal, but got f32 and i64",
    "%r = constant {value = 1.5} : i32": "a value of i32 must be an int, but got 1.5",
    "%r = constant {value = 2147483648} : i32": "a value of i32 must be -2147483648 to 2147483647",
    "%r = constant {value = 2} : i1": "a value of i1 must be 0 to 1, but got 2",
    "%r = program_id {axis = 3} : i32": "axis must be 0 to 2, but got 3",
    "%r = program_id {axis = 0} : i64": "its results must be (i32)",
    "%r = arange {start = 3, end = 3} : tile<1xi32>": "start must be less than end",
    "%r = arange {start = 0, end = 8} : tile<4xi32>": "its results must be (tile<8xi32>)",
    "%r = splat %t : tile<8xi32>": "its operand must be a scalar",
    "%r = splat %i : i32": "its result must be a tile",
    "%r = broadcast %t : tile<8x8xi32>": "cannot be broadcast",
    "%r = reshape %t : tile<33xi32>": "cannot be reshaped",
    "%r = reshape %t : tile<32xf32>": "its results must be (tile<32xi32>)",
    "%r = permute %t {order = (0, 0)} : tile<4x8xi32>": "order must permute 2 axes",
    "%r = permute %t {order = (1, 0)} : tile<4x8xi32>": "its results must be (tile<8x4xi32>)",
    "%r = join %t, %i : tile<4x8x2xi32>": "its operands must be",
    "%r, %s = split %t : i32, i32": "the last axis must have extent 2",
    "%r = cat %t, %t {axis = 2} : tile<4x8xi32>": "axis must be 0 to 1, but got 2",
    "%r = cat %t, %t {axis = 1} : tile<8x8xi32>": "its results must be (tile<4x16xi32>)",
    "%r = gather %t, %x {axis = 0} : tile<4x8xi32>": "it takes integers as indices",
    "%r = flip %t {axis = -1} : tile<4x8xi32>": "axis must be 0 to 1, but got -1",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    check_refused(line, WRONG[line])
