"""FLOPs of single operations, against counts by hand and by brute force."""

from __future__ import annotations

import itertools
import random

import pytest

import emu.sdy
from emu.sdy.costs.arithmetic import work_of


def work(body: str, arguments: str) -> tuple[str, int]:
    module = emu.sdy.parse(f"func.func @main({arguments}) {{\n{body}\n  return\n}}")
    found = work_of(module.body().first.body().first)
    assert found is not None
    return found.kind, found.count


A, B = "%a: tensor<4x8xf32>", "%b: tensor<8x16xf32>"


@pytest.mark.parametrize(
    ("body", "arguments", "kind", "count"),
    [
        ("stablehlo.dot %a, %b : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>", f"{A}, {B}",
         "products", 2 * 4 * 8 * 16),
        ("stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x4x8xbf16>, tensor<3x8x5xbf16>) -> tensor<3x4x5xf32>",
         "%a: tensor<3x4x8xbf16>, %b: tensor<3x8x5xbf16>", "products", 2 * 3 * 4 * 8 * 5),
        ("stablehlo.dot %a, %b : (tensor<4x8xcomplex<f32>>, tensor<8xcomplex<f32>>) -> tensor<4xcomplex<f32>>",
         "%a: tensor<4x8xcomplex<f32>>, %b: tensor<8xcomplex<f32>>", "products", 8 * 4 * 8),
        ("stablehlo.add %a, %a : tensor<4x8xf32>", A, "element-wise", 32),
        ("stablehlo.multiply %a, %a : tensor<4xcomplex<f32>>", "%a: tensor<4xcomplex<f32>>", "element-wise", 24),
        ("stablehlo.add %a, %a : tensor<4x8xi32>", "%a: tensor<4x8xi32>", "element-wise", 0),
        ("stablehlo.compare LT, %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>", A, "element-wise", 32),
        ("stablehlo.tanh %a : tensor<4x8xf32>", A, "transcendentals", 32),
        ("stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>", A, "element-wise", 0),
        ("stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>", f"{A}, %z: tensor<f32>", "reductions", 4 * 7),
        ("stablehlo.cholesky %a : tensor<2x6x6xf32>", "%a: tensor<2x6x6xf32>", "linear algebra and FFT", 2 * 6**3 // 3),
        ("stablehlo.fft %a, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>",
         "%a: tensor<3x8xcomplex<f32>>", "linear algebra and FFT", 5 * 3 * 8 * 3),
    ],
)  # fmt: skip
def test_counts_by_hand(body: str, arguments: str, kind: str, count: int) -> None:
    assert work(f"  %0 = {body}", arguments) == (kind, count)


@pytest.mark.parametrize("seed", range(40))
def test_a_convolution_counts_the_pairs_that_meet_an_element(seed: int) -> None:
    rng = random.Random(seed)
    groups = rng.choice([1, 2])
    features, filters, batch = 2 * groups, 4, rng.randint(1, 3)
    sizes = [rng.randint(3, 9), rng.randint(3, 9)]
    kernel = [rng.randint(1, 3), rng.randint(1, 3)]
    stride, dilate, gap = ([rng.randint(1, 3) for _ in "hw"] for _ in range(3))
    pad = [[rng.randint(0, 3), rng.randint(0, 3)] for _ in "hw"]
    result, pairs = [], 1
    for d in range(2):
        wide = (sizes[d] - 1) * dilate[d] + 1
        span = (kernel[d] - 1) * gap[d] + 1
        places = max(0, (wide + sum(pad[d]) - span) // stride[d] + 1)
        result.append(places)
        pairs *= sum(
            0 <= o * stride[d] + k * gap[d] - pad[d][0] < wide
            and (o * stride[d] + k * gap[d] - pad[d][0]) % dilate[d] == 0
            for o, k in itertools.product(range(places), range(kernel[d]))
        )
    image = f"tensor<{batch}x{sizes[0]}x{sizes[1]}x{features}xf32>"
    weights = f"tensor<{kernel[0]}x{kernel[1]}x{features // groups}x{filters}xf32>"
    out = f"tensor<{batch}x{result[0]}x{result[1]}x{filters}xf32>"
    body = (
        f"  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = {stride}, pad = {pad}, lhs_dilate = {dilate}, rhs_dilate = {gap}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({image}, {weights}) -> {out}"
    )
    expected = 2 * batch * filters * (features // groups) * pairs
    assert work(body, f"%a: {image}, %b: {weights}") == ("products", expected)


def test_what_is_not_known_is_said() -> None:
    text = """
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @mine(%a) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stablehlo.custom_call @mine(%0) : (tensor<4xf32>) -> tensor<4xf32>
      %2 = stablehlo.add %1, %a : tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    found = emu.sdy.cost(text)
    assert found.flops == 4
    assert found.notes == (
        "the FLOPs of these are not known: stablehlo.custom_call @mine (2 times)",
        "the passes warn: custom call @mine is unknown to SDY sharding rule registry",
    )
