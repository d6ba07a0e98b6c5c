"""Modules that are made ready to run: placements, probes, and passes that go wrong."""

from __future__ import annotations

import numpy as np
import pytest

import emu.sdy
from emu.mlir.diagnostics import PassFailed
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.partitioned import PROBE, main_function, n_devices, partition

TEXT = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.tanh %a : tensor<4x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_the_program_of_one_device_has_local_types_and_no_shardings() -> None:
    module = emu.sdy.parse(TEXT)
    before = str(module)
    found = partition(module)
    assert str(module) == before
    assert found.n_devices == n_devices(module) == 4
    main = main_function(found.local)
    assert [str(each.type) for each in main.body().arguments] == ["tensor<2x3xf32>"]
    assert "sdy" not in str(found.local)
    assert [p.local_shape for p in (*found.inputs, *found.results)] == [(2, 3), (2,)]
    assert not found.probes


def test_probes_follow_the_values_of_the_whole_program() -> None:
    found = partition(emu.sdy.parse(TEXT), probed=True)
    names = {found.operations[probe.operation].name for probe in found.probes.values()}
    assert {"stablehlo.tanh"} <= names
    assert str(found.local).count(PROBE) == len(found.probes)


@pytest.mark.parametrize("passes", ["", "sdy-propagation-pipeline"])
def test_passes_that_leave_global_types_are_refused(passes) -> None:
    with pytest.raises(
        ExecutionError,
        match=r"passes must make the program of one device, whose input 0 .*\[2, 3\]",
    ):
        partition(emu.sdy.parse(TEXT), passes)


@pytest.mark.parametrize("probed", [False, True])
def test_a_pass_that_fails_is_named_without_marks(probed) -> None:
    text = TEXT.replace("stablehlo.tanh %a", "sdy.reshard %a <@mesh, [{}, {}]>")
    module = emu.sdy.parse(text, file="reshards.mlir")
    with pytest.raises(PassFailed) as failure:
        partition(module, "sdy-convert-global-to-local", probed=probed)
    assert "sdy-convert-global-to-local failed" in str(failure.value)
    assert "reshards.mlir:5:8" in str(failure.value)
    assert "emu" not in str(failure.value)


def test_operations_are_compared_whose_regions_take_values_from_around() -> None:
    text = """
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) -> tensor<4x6xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.remainder %a, %c : tensor<f32>
    %2 = stablehlo.remainder %b, %c : tensor<f32>
    %3 = stablehlo.compare LT, %1, %2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    (found,) = emu.sdy.run(emu.sdy.parse(text), x, check="unsharded")
    np.testing.assert_array_equal(found, np.concatenate([x[:, ::2], x[:, 1::2]], axis=1))
