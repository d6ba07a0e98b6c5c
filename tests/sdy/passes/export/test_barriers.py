"""Propagation barriers become reshards, or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sdy_devices import on_devices, operations

PASS = "emu-resolve-propagation-barriers"


def program(before: str, after: str) -> str:
    def sharded(dims: str) -> str:
        return f"{{sdy.sharding = #sdy.sharding_per_value<[<@m, [{dims}]>]>}}"

    return f"""
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %0 = stablehlo.negate %a {sharded(before)} : tensor<4x4xf32>
  %1 = sdy.propagation_barrier %0 allowed_direction=NONE {sharded(after)} : tensor<4x4xf32>
  %2 = stablehlo.abs %1 {sharded(after)} : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}}"""


@pytest.mark.parametrize(
    ("after", "count"), [('{"x"}, {}', 0), ('{"x", ?}, {}', 0), ('{}, {"x"}', 1), ("{}, {}", 1)]
)
def test_a_reshard_where_sides_differ(after: str, count: int) -> None:
    names = [op.name for op in operations(program('{"x"}, {}', after), PASS)]
    assert "sdy.propagation_barrier" not in names
    assert names.count("sdy.reshard") == count


def test_values() -> None:
    given = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    (got,) = on_devices(program('{"x"}, {"y"}', '{"y"}, {"x"}'), given)
    np.testing.assert_array_equal(got, abs(given))
