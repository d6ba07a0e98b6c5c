"""Compiled movement of elements against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

DTYPES = {
    "f32": np.float32,
    "i64": np.int64,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i1": np.bool_,
    "i4": ml_dtypes.int4,
    "complex<f32>": np.complex64,
}
SHAPES = st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple)


def values(shape: tuple[int, ...], name: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name == "i1":
        return rng.random(shape) < 0.5
    found = rng.integers(-8, 8, shape).astype(np.float64)
    if name.startswith("f") or name == "bf16":
        special = rng.choice([np.nan, -0.0, 1.0], shape)
        found = np.where(rng.random(shape) < 0.2, special, found)
    return found.astype(DTYPES[name])


def tensor(shape: tuple[int, ...], name: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + name + ">"


def numbers(name: str, found: object) -> str:
    return f"{name} = {list(found)}"  # type: ignore[call-overload]


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=15, deadline=None)
@given(st.data(), SHAPES)
def test_pad(name: str, data: st.DataObject, shape: tuple[int, ...]) -> None:
    edges = st.lists(st.integers(-3, 3), min_size=len(shape), max_size=len(shape))
    low, high = data.draw(edges), data.draw(edges)
    interior = [abs(n) for n in data.draw(edges)]
    full = tuple(
        a + b + n + max(n - 1, 0) * i for a, b, n, i in zip(low, high, shape, interior, strict=True)
    )
    if min(full) < 0:
        return
    before, after, scalar = tensor(shape, name), tensor(full, name), tensor((), name)
    body = (
        f"%0 = stablehlo.pad %a, %b, {numbers('low', low)}, {numbers('high', high)}, "
        f"{numbers('interior', interior)} : ({before}, {scalar}) -> {after}\nreturn %0 : {after}"
    )
    text = function(body, f"%a: {before}, %b: {scalar}", after)
    check(text, values(shape, name), values((), name, 1), fallbacks=None)


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=15, deadline=None)
@given(st.data(), SHAPES)
def test_updates_and_slices_at_run_time(
    name: str, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    sizes = tuple(data.draw(st.integers(0, n)) for n in shape)
    starts = [np.asarray(data.draw(st.integers(-2, 8)), np.int32) for _ in shape]
    whole, part = tensor(shape, name), tensor(sizes, name)
    names = ", ".join(f"%s{i}" for i in range(len(shape)))
    scalars = ", ".join(["tensor<i32>"] * len(shape))
    body = (
        f"%0 = stablehlo.dynamic_slice %a, {names}, {numbers('sizes', sizes)} : ({whole}, {scalars}) -> {part}\n"
        f"%1 = stablehlo.dynamic_update_slice %a, %b, {names} : ({whole}, {part}, {scalars}) -> {whole}\n"
        f"return %0, %1 : {part}, {whole}"
    )
    given_ = f"%a: {whole}, %b: {part}, " + ", ".join(
        f"%s{i}: tensor<i32>" for i in range(len(shape))
    )
    text = function(body, given_, f"{part}, {whole}")
    check(text, values(shape, name), values(sizes, name, 1), *starts)


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=10, deadline=None)
@given(st.data(), SHAPES)
def test_concatenate_reshape_reverse(
    name: str, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    dimension = data.draw(st.integers(0, len(shape) - 1))
    other = tuple(
        data.draw(st.integers(0, 3)) if d == dimension else n for d, n in enumerate(shape)
    )
    joined = tuple(
        a + b if d == dimension else a for d, (a, b) in enumerate(zip(shape, other, strict=True))
    )
    turned, size = joined[::-1], int(np.prod(joined, dtype=int))
    a, b, c, t, flat = (tensor(s, name) for s in (shape, other, joined, turned, (size,)))
    order = list(range(len(shape)))[::-1]
    body = (
        f"%0 = stablehlo.concatenate %a, %b, dim = {dimension} : ({a}, {b}) -> {c}\n"
        f"%1 = stablehlo.transpose %0, dims = {order} : ({c}) -> {t}\n"
        f"%2 = stablehlo.reshape %1 : ({t}) -> {flat}\n"
        f"%3 = stablehlo.reverse %1, dims = [0] : {t}\n"
        f"return %2, %3 : {flat}, {t}"
    )
    text = function(body, f"%a: {a}, %b: {b}", f"{flat}, {t}")
    check(text, values(shape, name), values(other, name, 1))


@pytest.mark.parametrize("name", ["f32", "f16", "i32", "ui8", "bf16"])
def test_iota(name: str) -> None:
    type_ = tensor((3, 5), name)
    body = f"%0 = stablehlo.iota dim = 1 : {type_}\n%1 = stablehlo.iota dim = 0 : {type_}\nreturn %0, %1 : {type_}, {type_}"
    check(function(body, "", f"{type_}, {type_}"), fallbacks=None)


def test_constants_are_kept_once() -> None:
    body = """
    %0 = stablehlo.constant dense<1.5> : tensor<1000x1000xf32>
    %1 = stablehlo.slice %0 [0:3, 5:7] : (tensor<1000x1000xf32>) -> tensor<3x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<3x2xf32>) -> tensor<6xf32>
    return %2 : tensor<6xf32>"""
    bound = check(function(body, "", "tensor<6xf32>"))
    planned = bound.program.planned
    assert planned is not None
    assert sum(array.nbytes for array in planned.constants) == 4
