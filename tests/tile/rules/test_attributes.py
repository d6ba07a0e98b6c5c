"""Wrong attributes are refused."""

from __future__ import annotations

import pytest
from tile_refusals import check_refused

WRONG = {
    "%r = add %i, %i {exact = true} : i32": "it has no attribute exact",
    "%r = max %f, %f {propagate_nan = 1} : f32": "propagate_nan must be a bool, but got 1",
    '%r = cast %f {rounding = "up"} : i32': 'rounding must be "rtne" or "rtz"',
    "%r = constant : i32": "it must have the attribute value",
    '%r = constant {value = "1"} : i32': "value must be a number",
    "assert %c": "it must have the attribute message",
    'print {prefix = "p", hex = 1}': "hex must be a bool",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    check_refused(line, WRONG[line])
