"""Quantised tensors, against the specification's formulas written out in double precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import emu.sdy
from emu.mlir.text.type_parser import parse_type
from emu.stablehlo.reference import EvaluationError, evaluate
from emu.stablehlo.reference.quantization import quantization

Q = "!quant.uniform<i8:f32, 0.1:-30>"
R = "!quant.uniform<u8<1:250>:f32, 0.5:20>"
AXIS = "!quant.uniform<i8:f32:1, {0.1:-30, 0.5:-20, 2.0:0}>"


def run(body: str, arguments: str, results: str, *inputs: np.ndarray) -> np.ndarray:
    text = f"func.func @main({arguments}) -> ({results}) {{\n{body}\nreturn %r : {results}\n}}"
    (found,) = evaluate(emu.sdy.parse(text), *inputs)
    return found


def rounded(x: np.ndarray, scale, zero, low: int = -128, high: int = 127) -> np.ndarray:
    return np.rint(np.clip(x.astype(np.float32) / np.float32(scale) + np.float32(zero), low, high))


def test_types_are_read() -> None:
    found = quantization(parse_type(R))
    assert (found.storage, found.smallest, found.largest) == (np.dtype(np.uint8), 1, 250)
    assert (found.scales, found.zero_points, found.dimension) == ((0.5,), (20,), None)
    found = quantization(parse_type(AXIS))
    assert (found.scales, found.zero_points, found.dimension) == ((0.1, 0.5, 2.0), (-30, -20, 0), 1)
    assert quantization(parse_type("!quant.uniform<i4:f32, 2.0e+01>")).storage == ml_dtypes.int4
    assert quantization(parse_type("f32")) is None


def test_numbers_are_rounded_clamped_and_found_again() -> None:
    x = np.array([-100, -9.8, -0.04, 0, 0.05, 0.15, 4.0, 15.7, 1e9, np.inf, -np.inf], np.float32)
    n = len(x)
    arguments, stored = f"%a: tensor<{n}xf32>", f"tensor<{n}xi8>"
    quantise = f"%0 = stablehlo.uniform_quantize %a : (tensor<{n}xf32>) -> tensor<{n}x{Q}>\n"
    cast = f"%r = stablehlo.bitcast_convert %0 : (tensor<{n}x{Q}>) -> {stored}"
    elements = run(quantise + cast, arguments, stored, x)
    np.testing.assert_array_equal(elements, rounded(x, 0.1, -30))
    back = f"%r = stablehlo.uniform_dequantize %0 : (tensor<{n}x{Q}>) -> tensor<{n}xf32>"
    numbers = run(quantise + back, arguments, f"tensor<{n}xf32>", x)
    np.testing.assert_allclose(numbers, (elements.astype(np.float64) + 30) * 0.1, rtol=1e-6)


def test_each_index_along_a_dimension_has_its_scale() -> None:
    x = np.random.default_rng(0).normal(scale=20, size=(4, 3)).astype(np.float32)
    t = "tensor<4x3xf32>"
    body = f"""%0 = stablehlo.uniform_quantize %a : ({t}) -> tensor<4x3x{AXIS}>
        %r = stablehlo.bitcast_convert %0 : (tensor<4x3x{AXIS}>) -> tensor<4x3xi8>"""
    found = run(body, f"%a: {t}", "tensor<4x3xi8>", x)
    np.testing.assert_array_equal(found, rounded(x, [0.1, 0.5, 2.0], [-30, -20, 0]))


OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_those_on_the_numbers_rounded_again(name: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, 64).astype(np.int8)
    y = rng.integers(1, 251, 64).astype(np.uint8)
    a, b = f"tensor<64x{Q}>", f"tensor<64x{R}>"
    body = f"""%0 = stablehlo.bitcast_convert %a : (tensor<64xi8>) -> {a}
        %1 = stablehlo.bitcast_convert %b : (tensor<64xui8>) -> {b}
        %2 = stablehlo.{name} %0, %1 : ({a}, {b}) -> {b}
        %r = stablehlo.bitcast_convert %2 : ({b}) -> tensor<64xui8>"""
    found = run(body, "%a: tensor<64xi8>, %b: tensor<64xui8>", "tensor<64xui8>", x, y)
    left = (x.astype(np.float32) + 30) * np.float32(0.1)
    right = (y.astype(np.float32) - 20) * np.float32(0.5)
    expected = rounded(OPERATIONS[name](left, right), 0.5, 20, 1, 250)
    np.testing.assert_array_equal(found, expected)


def test_products_and_movement_and_reductions() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-128, 128, (3, 3)).astype(np.int8) for _ in range(2))
    q, wide = f"tensor<3x3x{Q}>", "!quant.uniform<i32:f32, 0.01:0>"
    body = f"""%0 = stablehlo.bitcast_convert %a : (tensor<3x3xi8>) -> {q}
        %1 = stablehlo.bitcast_convert %b : (tensor<3x3xi8>) -> {q}
        %2 = stablehlo.transpose %1, dims = [1, 0] : ({q}) -> {q}
        %3 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [0] : ({q}, {q}) -> tensor<3x3x{wide}>
        %r = stablehlo.bitcast_convert %3 : (tensor<3x3x{wide}>) -> tensor<3x3xi32>"""
    found = run(body, "%a: tensor<3x3xi8>, %b: tensor<3x3xi8>", "tensor<3x3xi32>", x, y)
    expected = (x.astype(int) + 30) @ (y.astype(int) + 30).T
    np.testing.assert_allclose(found, expected, atol=1)
    body = f"""%0 = stablehlo.bitcast_convert %a : (tensor<3x3xi8>) -> {q}
        %i = stablehlo.constant() <{{value = dense<-30> : tensor<i8>}}> : () -> tensor<{Q}>
        %2 = "stablehlo.reduce"(%0, %i) ({{
        ^bb0(%x: tensor<{Q}>, %y: tensor<{Q}>):
          %m = stablehlo.maximum %x, %y : tensor<{Q}>
          stablehlo.return %m : tensor<{Q}>
        }}) {{dimensions = array<i64: 1>}} : ({q}, tensor<{Q}>) -> tensor<3x{Q}>
        %r = stablehlo.bitcast_convert %2 : (tensor<3x{Q}>) -> tensor<3xi8>"""
    found = run(body, "%a: tensor<3x3xi8>", "tensor<3xi8>", x)
    np.testing.assert_array_equal(found, np.maximum(x.max(1), -30))


def test_programs_values_gain_no_users() -> None:
    module = emu.sdy.parse(f"""func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{
        %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x{Q}>
        %1 = stablehlo.add %0, %0 : tensor<2x{Q}>
        %2 = stablehlo.uniform_dequantize %1 : (tensor<2x{Q}>) -> tensor<2xf32>
        return %2 : tensor<2xf32> }}""")
    before = str(module)
    counts = [len(r.uses) for op in module.walk() for r in op.results]
    (found,) = evaluate(module, np.array([1, 2], np.float32))
    np.testing.assert_allclose(found, [2, 4], rtol=1e-6)
    assert [len(r.uses) for op in module.walk() for r in op.results] == counts
    assert str(module) == before


def test_what_is_quantised_otherwise_is_refused() -> None:
    with pytest.raises(
        EvaluationError, match=r"elements of type !quant\.any<i8:f32> are not evaluated"
    ):
        quantization(parse_type("!quant.any<i8:f32>"))
    blocks = "!quant.uniform<i8:f32:{0:1}, {0.1, 0.2}>"
    with pytest.raises(EvaluationError, match="are not evaluated"):
        quantization(parse_type(blocks))
