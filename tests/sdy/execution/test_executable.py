"""Partitioned programs on PEs: their results, and what the comparison with the whole program finds."""

from __future__ import annotations

import numpy as np
import pytest

import emu
import emu.sdy
from emu.mlir.arguments import ArgumentError
from emu.sdy.execution.errors import ExecutionError, MismatchError
from emu.sdy.execution.executable import compile, run

LAYER = """
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %v: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<8xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.tanh %0 : tensor<8x32xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
      : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %2, %3 : tensor<8x16xf32>, tensor<8xf32>
}
"""
SUB_AXES = """
sdy.mesh @mesh = <["x"=8]>
func.func @main(%a: tensor<8x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)4}]>})
    -> (tensor<8x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)4}]>}) {
  %0 = stablehlo.iota dim = 1 : tensor<8x4xi32>
  %1 = stablehlo.add %a, %0 : tensor<8x4xi32>
  return %1 : tensor<8x4xi32>
}
"""


def inputs(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def layer(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    y = np.tanh(x.astype(float) @ w) @ v
    return [y, y.sum(1)]


@pytest.mark.parametrize("check", [None, "outputs", "unsharded"])
def test_a_layer_on_four_pes(check) -> None:
    given = inputs((8, 16), (16, 32), (32, 16))
    program = compile(emu.sdy.parse(LAYER), check=check)
    assert program.n_devices == 4
    for got, expected in zip(program(*given), layer(*given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def run_twice_in_a_world(text: str, given: list[np.ndarray]) -> list[list[np.ndarray]]:
    program = compile(emu.sdy.parse(text))
    return [program(*given), program(*(2 * x for x in given))]


def test_every_pe_of_a_world_gets_the_whole_results() -> None:
    given = inputs((8, 16), (16, 32), (32, 16), seed=1)
    for found in emu.launch(run_twice_in_a_world, 4, args=(LAYER, given)):
        for results, factor in zip(found, (1, 2), strict=True):
            expected = layer(*(factor * x for x in given))
            for got, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_program_without_shardings_runs_in_this_process() -> None:
    text = "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n%0 = stablehlo.sine %a : tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}"
    (x,) = inputs((3,))
    (got,) = run(emu.sdy.parse(text), x, check="unsharded")
    np.testing.assert_allclose(got, np.sin(x), rtol=1e-6)


class TestComparison:
    def test_the_right_offsets_along_sub_axes_are_found_right(self) -> None:
        a = np.arange(32, dtype=np.int32).reshape(8, 4)
        (got,) = run(emu.sdy.parse(SUB_AXES), a, check="unsharded")
        np.testing.assert_array_equal(got, a + np.arange(4))

    @pytest.mark.parametrize("check", ["outputs", "unsharded"])
    def test_the_wrong_offsets_of_shardy_before_july_are_found(self, check: str) -> None:
        a = np.arange(32, dtype=np.int32).reshape(8, 4)
        passes = "emu-partition-pipeline{fix-sub-axis-offsets=false}"
        with pytest.raises(MismatchError) as caught:
            run(emu.sdy.parse(SUB_AXES, file="offsets.mlir"), a, passes=passes, check=check)
        finding = caught.value.findings[0]
        whole = np.arange(4) if check == "unsharded" else a + np.arange(4)
        assert finding.expected == np.broadcast_to(whole, (8, 4))[finding.index]
        assert finding.got != finding.expected
        if check == "unsharded":
            assert finding.what == "stablehlo.iota"
            assert finding.location == "offsets.mlir:5:8"
            assert any(
                "stablehlo.iota dim = 1" in line and '"x":(2)4' in line for line in finding.made
            )
            assert f"on PE {finding.device}" in str(caught.value)
            # What is computed from a wrong value is right for that value, and is no finding of its own.
            assert len(caught.value.findings) == 1


class TestWrongArguments:
    def test_passes_as_inputs(self) -> None:
        with pytest.raises(ExecutionError, match=r"but got passes: run_passes\(module, passes\)"):
            run(emu.sdy.parse(SUB_AXES), "sdy-propagation-pipeline")

    def test_inputs(self) -> None:
        program = compile(emu.sdy.parse(LAYER))
        x, w, v = inputs((8, 16), (16, 32), (32, 16))
        with pytest.raises(ExecutionError, match="the program takes 3 inputs, but got 2"):
            program(x, w)
        with pytest.raises(
            ExecutionError, match=r"input 1 must be tensor<16x32xf32>, but is float32\[16, 31\]"
        ):
            program(x, w[:, 1:], v)
        with pytest.raises(
            ExecutionError, match=r"input 0 must be tensor<8x16xf32>, but is float64\[8, 16\]"
        ):
            program(x.astype(float), w, v)

    def test_options(self) -> None:
        module = emu.sdy.parse(LAYER)
        with pytest.raises(
            ExecutionError, match="check must be None, 'outputs' or 'unsharded', but is 'all'"
        ):
            compile(module, check="all")
        with pytest.raises(ArgumentError, match="module must be a module"):
            compile(LAYER)

    def test_modules(self) -> None:
        two = "func.func @a() { return }\nfunc.func @b() { return }"
        with pytest.raises(
            ExecutionError, match="module must have a function @main, but has @a, @b"
        ):
            compile(emu.sdy.parse(two))
        dynamic = (
            "func.func @main(%a: tensor<*xf32>) -> tensor<*xf32> { return %a : tensor<*xf32> }"
        )
        with pytest.raises(
            ExecutionError, match=r"input 0 must be a tensor of static shape, but is tensor<\*xf32>"
        ):
            compile(emu.sdy.parse(dynamic))

    def test_a_world_of_another_size(self) -> None:
        given = inputs((8, 16), (16, 32), (32, 16))
        with pytest.raises(ExceptionGroup) as caught:
            emu.launch(run_twice_in_a_world, 2, args=(LAYER, given))
        assert caught.group_contains(ExecutionError, match="runs on 4 PEs, but this world has 2")


PARTIAL = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x3xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<3xf32> {{
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.{name} across dimensions = [0]
      : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}}
"""
AS_SHARDY = (
    "sdy-propagation-pipeline,sdy-insert-explicit-reshards{enable-full-version=true},"
    "sdy-resolve-permutation-factors,sdy-reshard-to-collectives,sdy-pad-for-divisibility,"
    "sdy-convert-global-to-local{fix-wrong-results=%s}"
)


class TestPartialResultsOfShardy:
    """Shardy adds up partial products, and lets every device start from the initial value."""

    @pytest.mark.parametrize("name", ["multiply", "add", "maximum"])
    def test_right_with_our_corrections(self, name: str) -> None:
        (a,) = inputs((4, 3), seed=3)
        kept = {"multiply": a.prod(0), "add": 1 + a.sum(0), "maximum": np.maximum(1, a.max(0))}
        for passes in ("emu-partition-pipeline", AS_SHARDY % "true"):
            module = emu.sdy.parse(PARTIAL.format(name=name))
            (got,) = run(module, a, passes=passes, check="unsharded")
            np.testing.assert_allclose(got, kept[name], rtol=1e-5)

    @pytest.mark.parametrize("name", ["multiply", "add"])
    @pytest.mark.parametrize("check", ["outputs", "unsharded"])
    def test_found_without_them(self, name: str, check: str) -> None:
        (a,) = inputs((4, 3), seed=3)
        module = emu.sdy.parse(PARTIAL.format(name=name), file="partial.mlir")
        with pytest.raises(MismatchError) as caught:
            run(module, a, passes=AS_SHARDY % "false", check=check)
        finding = caught.value.findings[0]
        if check == "unsharded":
            assert finding.what == "stablehlo.reduce"
            assert finding.location == "partial.mlir:5:24"
            assert any("sdy.all_reduce" in line for line in finding.made)
