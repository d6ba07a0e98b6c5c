"""Devices of a mesh are partitions, or replicas."""

from __future__ import annotations

import pytest
from sdy_devices import operations

import emu.sdy

TEXT = """
sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<4xi32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>})
    -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.pad %a, %c, low = [3], high = [1], interior = [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : (tensor<4xi32>, tensor<i32>) -> tensor<8xi32>
  return %0 : tensor<8xi32>
}
"""
PASSES = ["sdy-resolve-permutation-factors", "sdy-per-instruction-partitioning"]


@pytest.mark.parametrize("name", [*PASSES, "sdy-convert-global-to-local"])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("replica-count=2 partition-count=2", "devices are replicas or partitions, but got"),
        ("replica-count=0", "must be at least 1, but got replica-count=0 and partition-count=1"),
        ("partition-count=-1", "must be at least 1, but got replica-count=1 and"),
    ],
)
def test_counts_that_make_no_sense(name: str, counts: str, message: str) -> None:
    with pytest.raises(emu.sdy.PassFailed, match=message):
        emu.sdy.run_passes(emu.sdy.parse(TEXT), f"{name}{{{counts}}}")


@pytest.mark.parametrize("name", PASSES)
def test_what_asks_for_the_device(name: str) -> None:
    for counts, there, elsewhere in (
        ("replica-count=2", "stablehlo.replica_id", "stablehlo.partition_id"),
        ("partition-count=2", "stablehlo.partition_id", "stablehlo.replica_id"),
    ):
        names = {op.name for op in operations(TEXT, f"{name}{{{counts}}}")}
        assert there in names
        assert elsewhere not in names
