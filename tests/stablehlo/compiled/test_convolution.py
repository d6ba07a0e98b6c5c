"""Compiled convolutions against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

DTYPES = {
    "f32": (np.float32, 1e-4),
    "f64": (np.float64, 1e-12),
    "bf16": (ml_dtypes.bfloat16, 3e-2),
    "i32": (np.int32, 0),
}


def tensor(shape: tuple[int, ...], name: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + name + ">"


def arranged(order: list[int], sizes: list[int]) -> tuple[int, ...]:
    return tuple(sizes[d] for d in order)


def dims(order: list[int], letters: str) -> str:
    """Return the names of dimensions: letters first, then spatial ones."""
    return ", ".join(letters[d] if d < 2 else str(d - 2) for d in order)


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 1), (1, 3)]))
def test_convolution(name: str, data: st.DataObject, rank: int, groups: tuple[int, int]) -> None:
    features, batches = groups
    draw = data.draw
    sizes = [draw(st.integers(1, 6)) for _ in range(rank)]
    window = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides, base, inner = ([draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(3))
    pads = [(draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in range(rank)]
    reversal = [draw(st.booleans()) for _ in range(rank)]
    places = []
    for n, w, s, b, d, p in zip(sizes, window, strides, base, inner, pads, strict=True):
        full, span = sum(p) + (n - 1) * b + 1, (w - 1) * d + 1
        assume(full >= 0)
        places.append(0 if full <= 0 or span > full else (full - span) // s + 1)
    batch = draw(st.integers(1, 2)) * batches
    channel = draw(st.integers(1, 3))
    out = draw(st.integers(1, 2)) * max(groups)
    orders = [list(draw(st.permutations(range(rank + 2)))) for _ in range(3)]
    shapes = (
        arranged(orders[0], [batch, channel * features, *sizes]),
        arranged(orders[1], [channel, out, *window]),
        arranged(orders[2], [batch // batches, out, *places]),
    )
    x, k, r = (tensor(s, name) for s in shapes)
    numbers = f"[{dims(orders[0], 'bf')}]x[{dims(orders[1], 'io')}]->[{dims(orders[2], 'bf')}]"
    flags = ", ".join(str(f).lower() for f in reversal)
    body = (
        f"%0 = stablehlo.convolution(%x, %k) dim_numbers = {numbers}, window = {{stride = {strides}, "
        f"pad = {[list(p) for p in pads]}, lhs_dilate = {base}, rhs_dilate = {inner}, reverse = [{flags}]}} "
        f"{{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}} : "
        f"({x}, {k}) -> {r}\nreturn %0 : {r}"
    )
    dtype, tolerance = DTYPES[name]
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    arrays = [rng.normal(size=s) * 5 for s in shapes[:2]]
    check(
        function(body, f"%x: {x}, %k: {k}", r),
        *(a.astype(dtype) for a in arrays),
        rtol=tolerance,
        atol=100 * tolerance,
        fallbacks=None,
    )


def test_large_images_are_convolved_in_parts() -> None:
    x, k, r = "tensor<3x40x45x64xf32>", "tensor<3x3x64x2xf32>", "tensor<3x40x45x2xf32>"
    body = (
        "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : "
        f"({x}, {k}) -> {r}\nreturn %0 : {r}"
    )
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((3, 40, 45, 64), (3, 3, 64, 2))]
    bound = check(function(body, f"%x: {x}, %k: {k}", r), *arrays, rtol=1e-4, atol=1e-4)
    assert bound.buffer_bytes < 10 << 20
