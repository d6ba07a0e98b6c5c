"""Compiled products against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

DTYPES = {
    "f32": (np.float32, 1e-5),
    "f64": (np.float64, 1e-13),
    "f16": (np.float16, 2e-3),
    "bf16": (ml_dtypes.bfloat16, 1e-2),
    "i32": (np.int32, 0),
    "ui8": (np.uint8, 0),
    "i64": (np.int64, 0),
}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def tensor(shape: tuple[int, ...], name: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + name + ">"


def product(
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    numbers: str,
    name: str,
    result: str = "",
) -> str:
    a, b, c = tensor(shapes[0], name), tensor(shapes[1], name), tensor(shapes[2], result or name)
    body = f"%0 = stablehlo.dot_general %a, %b, {numbers} : ({a}, {b}) -> {c}\nreturn %0 : {c}"
    return function(body, f"%a: {a}, %b: {b}", c)


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=20, deadline=None)
@given(
    batch=st.lists(st.integers(0, 3), max_size=2),
    rows=st.lists(st.integers(0, 9), max_size=2),
    columns=st.lists(st.integers(0, 9), max_size=2),
    depth=st.lists(st.integers(0, 7), max_size=2),
    seed=st.integers(0, 1000),
)
def test_dot_general(
    name: str,
    batch: list[int],
    rows: list[int],
    columns: list[int],
    depth: list[int],
    seed: int,
) -> None:
    dtype, tolerance = DTYPES[name]
    rng = np.random.default_rng(seed)
    left, right = [*batch, *rows, *depth], [*batch, *columns, *depth]
    # The dimensions of both operands in any order.
    orders = [rng.permutation(len(x)) for x in (left, right)]
    place = [{int(d): i for i, d in enumerate(order)} for order in orders]
    shapes = [tuple(x[d] for d in order) for x, order in zip((left, right), orders, strict=True)]
    count, first = len(batch), [len(batch) + len(rows), len(batch) + len(columns)]
    dims = [
        ([place[k][d] for d in range(count)], [place[k][first[k] + d] for d in range(len(depth))])
        for k in (0, 1)
    ]
    free = [
        [x[d] for d in order if count <= d < count + n]
        for x, order, n in zip((left, right), orders, (len(rows), len(columns)), strict=True)
    ]
    result = (*batch, *free[0], *free[1])
    numbers = f"batching_dims = {dims[0][0]} x {dims[1][0]}, " if count else ""
    numbers += f"contracting_dims = {dims[0][1]} x {dims[1][1]}"
    text = product((shapes[0], shapes[1], result), numbers, name)
    check(text, *(values(rng, s, dtype) for s in shapes), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("name", "result"), [("bf16", "f32"), ("f16", "f32"), ("i8", "i32")])
def test_wider_results(name: str, result: str) -> None:
    rng = np.random.default_rng(0)
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8}[name]
    text = product(((5, 33), (33, 7), (5, 7)), "contracting_dims = [1] x [0]", name, result)
    check(text, values(rng, (5, 33), dtype), values(rng, (33, 7), dtype), rtol=1e-5, atol=1e-5)


def test_nan_and_infinity_go_through() -> None:
    a = np.array([[np.inf, 1, 0], [np.nan, 1, 2], [1, 2, 3]], np.float32)
    b = np.array([[0, 1], [1, -np.inf], [np.inf, 2]], np.float32)
    check(product(((3, 3), (3, 2), (3, 2)), "contracting_dims = [1] x [0]", "f32"), a, b)


def test_inputs_of_any_strides() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(12, 10)).astype(np.float32)[::2, ::-1]
    b = rng.normal(size=(4, 10)).astype(np.float32).T
    text = product(((6, 10), (10, 4), (6, 4)), "contracting_dims = [1] x [0]", "f32")
    check(text, a, b, rtol=1e-5, atol=1e-5)


def test_operands_seen_through_views() -> None:
    body = """
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.slice %b [1:5, 0:6:2] : (tensor<6x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    return %2 : tensor<6x3xf32>"""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 6), (6, 6)))
    text = function(body, "%a: tensor<4x6xf32>, %b: tensor<6x6xf32>", "tensor<6x3xf32>")
    check(text, a, b, rtol=1e-5, atol=1e-5)


def test_complex_products() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        (rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))).astype(np.complex64)
        for _ in range(2)
    )
    text = product(((3, 3), (3, 3), (3, 3)), "contracting_dims = [1] x [0]", "complex<f32>")
    check(text, a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("result", ["f32", "f16", "f8E5M2"])
def test_products_of_floats_of_one_byte(result: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(ml_dtypes.float8_e5m2) for shape in ((5, 17), (17, 9)))
    body = (
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
        f"(tensor<5x17xf8E5M2>, tensor<17x9xf8E5M2>) -> tensor<5x9x{result}>\nreturn %0 : tensor<5x9x{result}>"
    )
    arguments = "%a: tensor<5x17xf8E5M2>, %b: tensor<17x9xf8E5M2>"
    text = function(body, arguments, f"tensor<5x9x{result}>")
    tolerance = {"f32": 1e-6, "f16": 1e-3, "f8E5M2": 0.3}[result]
    check(text, a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("rows", [1, 5, 200])
@pytest.mark.parametrize("turned", [False, True])
def test_constant_weights_give_the_bits_of_other_ones(name: str, rows: int, turned: bool) -> None:
    """They are packed when the program is bound."""
    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f64": np.float64}[name]
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(rows, 19)).astype(dtype), rng.normal(size=(19, 37)).astype(dtype)
    shape, axis = ("37x19", 1) if turned else ("19x37", 0)
    given = np.ascontiguousarray(b.T) if turned else b
    x, w, y = f"tensor<{rows}x19x{name}>", f"tensor<{shape}x{name}>", f"tensor<{rows}x37x{name}>"
    body = (
        f"%0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [{axis}] : ({x}, {w}) -> {y}\n"
        f"return %0 : {y}"
    )
    constant = f'%w = stablehlo.constant dense<"0x{given.tobytes().hex().upper()}"> : {w}\n'
    bound = check(function(constant + body, f"%a: {x}", y), a, rtol=3e-2, atol=3e-2)
    other = check(function(body, f"%a: {x}, %w: {w}", y), a, given, rtol=3e-2, atol=3e-2)
    assert bound([a])[0].tobytes() == other([a, given])[0].tobytes()
