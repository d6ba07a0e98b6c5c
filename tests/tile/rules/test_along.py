"""Wrong reductions, scans, histograms and products are refused."""

from __future__ import annotations

import pytest
from tile_refusals import check_refused

WRONG = {
    "%r = reduce %i {axis = 0} : i32 (%a: i32, %b: i32) {\nyield %a\n}": "must be a tile",
    "%r = reduce %t {axis = 0} : tile<8xi32> (%a: i32, %b: f32) {\nyield %a\n}": "arguments must",
    "%r = reduce %t {axis = 0} : tile<4xi32> (%a: i32, %b: i32) {\nyield %a\n}": "its results must",
    "%r = scan %t {axis = 0} : tile<8xi32> (%a: i32, %b: i32) {\nyield %a\n}": "its results must",
    "%r = histogram %t {bins = 4} : tile<4xi32>": "its operand must have one axis",
    "%r = sort %t : tile<8xi32>": "unsigned integers",
    "%r = sort %i : i32": "must be a tile",
    "%r = dot %x, %x, %x : tile<4x8xf32>": "it cannot multiply",
    "%r = dot %x, %y, %t : tile<4x8xi32>": "it cannot multiply",
    "%z = constant {value = 1} : tile<4x4xf32>\n%r = dot %x, %y, %z {native = true} : tile<4x4xf32>": "native adds pairs of bf16",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    check_refused(line, WRONG[line])
