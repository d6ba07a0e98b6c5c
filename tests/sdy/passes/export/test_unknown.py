"""Operations without a sharding rule compute on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from sdy_devices import on_devices, operations, whole

import emu.sdy
from emu.mlir.ir import Operation
from emu.stablehlo.reference.values import Array

CUT = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>'
T = "tensor<4x6xf32>"

PROGRAMS = {
    "batch_norm_training": (
        f"""%s = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
        %0:3 = "stablehlo.batch_norm_training"(%a, %s, %s) {{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}
            : ({T}, tensor<6xf32>, tensor<6xf32>) -> ({T}, tensor<6xf32>, tensor<6xf32>)""",
        "%0#0",
        T,
    ),
    "einsum": (f'%0 = "stablehlo.einsum"(%a, %a) {{einsum_config = "ab,cb->ac"}} : ({T}, {T}) -> tensor<4x4xf32>', "%0", "tensor<4x4xf32>"),
    "unary_einsum": (f'%0 = "stablehlo.unary_einsum"(%a) {{einsum_config = "ab->ba"}} : ({T}) -> tensor<6x4xf32>', "%0", "tensor<6x4xf32>"),
    "torch_index_select": (
        f"""%i = stablehlo.constant dense<[3, 0]> : tensor<2xi32>
        %0 = "stablehlo.torch_index_select"(%a, %i) {{dim = 0 : i64, batch_dims = 0 : i64}} : ({T}, tensor<2xi32>) -> tensor<2x6xf32>""",
        "%0",
        "tensor<2x6xf32>",
    ),
    "real_dynamic_slice": (
        f"""%l = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
        %h = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
        %s = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
        %0 = stablehlo.real_dynamic_slice %a, %l, %h, %s : ({T}, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<3x2xf32>""",
        "%0",
        "tensor<3x2xf32>",
    ),
    "dynamic_iota": (
        f"""%s = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
        %1 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> {T}
        %0 = stablehlo.add %a, %1 : {T}""",
        "%0",
        T,
    ),
    "quantised along a dimension": (
        f"""%1 = stablehlo.uniform_quantize %a : ({T}) -> tensor<4x6x!quant.uniform<i8:f32:1, {{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}>>
        %0 = stablehlo.uniform_dequantize %1 : (tensor<4x6x!quant.uniform<i8:f32:1, {{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}>>) -> {T}""",
        "%0",
        T,
    ),
    "custom call": (f"%0 = stablehlo.custom_call @test_flipped(%a) : ({T}) -> {T}", "%0", T),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_sharded_program_computes_what_the_whole_one_does(name: str) -> None:
    body, result, type_ = PROGRAMS[name]
    module = emu.sdy.parse(f"""sdy.mesh @mesh = <["x"=2, "y"=3]>
        func.func @main(%a: {T} {{{CUT}}}) -> ({type_} {{{CUT}}}) {{
        {body}
        return {result} : {type_}
        }}""")
    a = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    calls = (
        {"test_flipped": flipped} if name == "custom call" else None
    )  # PEs load this file for it
    with emu.sdy.compile(module, check="outputs", custom_calls=calls) as run:
        assert run.n_devices == 6
        (found,) = run(a)
    assert found.shape == tuple(map(int, type_.removeprefix("tensor<").split("x")[:-1]))
    assert np.abs(found).max() > 0


def flipped(op: object, x: np.ndarray) -> list[np.ndarray]:
    return [x[::-1, ::-1]]


MATRICES = """sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func @main(%a: tensor<6x6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {}]>})
    -> (tensor<6x6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>}) {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"},
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=6, j=6, k=6, l=6, m=6}, custom>} : (tensor<6x6x6xf32>) -> (tensor<6x6x6xf32>, tensor<6xi32>)
  return %0#0 : tensor<6x6x6xf32>
}"""


def test_matrices_of_lapacks_calls_are_whole_and_batches_stay_divided() -> None:
    pytest.importorskip("scipy")
    a = np.random.default_rng(0).normal(size=(6, 6, 6)).astype(np.float32)
    a = a @ a.transpose(0, 2, 1) + np.eye(6, dtype=np.float32)
    with emu.sdy.compile(emu.sdy.parse(MATRICES), check="outputs") as program:
        (found,) = program(a)
        assert "@lapack_spotrf_ffi(" in str(program.partitioned.local)
        assert "(tensor<3x6x6xf32>) -> (tensor<3x6x6xf32>, tensor<3xi32>)" in str(
            program.partitioned.local
        )
    np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


RULE = "sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>, "


def program(rule: str = "") -> str:
    sharded = 'sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>'
    return f"""
sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
  %0 = stablehlo.negate %a {{{sharded}}} : tensor<8xf32>
  %1 = stablehlo.custom_call @turn(%0) {{{rule}{sharded}}} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}}"""


def turn(op: Operation, x: Array) -> Sequence[Array]:
    return [np.roll(x, 1)]


def test_values() -> None:
    given = np.arange(8, dtype=np.float32)
    (got,) = on_devices(program(), given, custom_calls={"turn": turn})
    np.testing.assert_array_equal(got, np.roll(-given, 1))
    np.testing.assert_array_equal(got, whole(program(), given, custom_calls={"turn": turn})[0])


def test_a_rule_says_that_a_call_works_on_shards() -> None:
    for rule, count in (("", 2), (RULE, 0)):
        names = [op.name for op in operations(program(rule), "emu-replicate-unknown-calls")]
        assert names.count("sdy.reshard") == count
