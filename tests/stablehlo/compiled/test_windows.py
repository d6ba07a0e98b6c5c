"""Compiled reductions in windows, against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function
from stablehlo_reducers import DTYPES, NAMES, STARTS, region, tensor, values

import emu.sdy
from emu.stablehlo.reference import evaluate


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("combine", NAMES)
@settings(max_examples=10, deadline=None)
@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple))
def test_reduce_window(
    combine: str, name: str, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    draw = data.draw
    sizes = [draw(st.integers(1, 3)) for _ in shape]
    moves, base, inner = ([draw(st.integers(1, 2)) for _ in shape] for _ in range(3))
    pads = [(draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in shape]
    if draw(st.booleans()):
        # A running total.
        axis, turned = draw(st.integers(0, len(shape) - 1)), draw(st.booleans())
        sizes = [n if d == axis else 1 for d, n in enumerate(shape)]
        moves, base, inner = ([1] * len(shape) for _ in range(3))
        side = (0, -1) if turned else (-1, 0)
        pads = [
            tuple(-k * (n - 1) for k in side) if d == axis else (0, 0) for d, n in enumerate(shape)
        ]
    found = []
    for n, w, s, b, d, p in zip(shape, sizes, moves, base, inner, pads, strict=True):
        full, span = sum(p) + (n - 1) * b + 1, (w - 1) * d + 1
        assume(full >= span)
        found.append((full - span) // s + 1)
    x, r = tensor(shape, name), tensor(tuple(found), name)
    start = STARTS[combine] if name != "ui8" else abs(STARTS[combine])

    def array(numbers: list[int]) -> str:
        return f"array<i64: {', '.join(map(str, numbers))}>"

    body = (
        f"%c = stablehlo.constant dense<{start}{'' if 'i' in name else '.0'}> : tensor<{name}>\n"
        f'%0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = {array(sizes)}, '
        f"window_strides = {array(moves)}, base_dilations = {array(base)}, "
        f"window_dilations = {array(inner)}, padding = dense<{[list(p) for p in pads]}> : "
        f"tensor<{len(shape)}x2xi64>}}> {region(combine, name)} : ({x}, tensor<{name}>) -> {r}\n"
        f"return %0 : {r}"
    )
    inputs = values(shape, name, draw(st.integers(0, 50)))
    # Running totals from behind are added in another order.
    rtol = 10 * DTYPES[name][1]
    check(function(body, f"%x: {x}", r), inputs, rtol=rtol, atol=rtol, fallbacks=None)


@pytest.mark.parametrize("name", ["f32", "i32"])
@settings(max_examples=15, deadline=None)
@given(st.data(), st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_select_and_scatter(name: str, data: st.DataObject, shape: tuple[int, int]) -> None:
    draw = data.draw
    sizes, moves = ([draw(st.integers(1, 3)) for _ in shape] for _ in range(2))
    pads = [(draw(st.integers(0, 1)), draw(st.integers(0, 1))) for _ in shape]
    places = []
    for n, w, s, p in zip(shape, sizes, moves, pads, strict=True):
        assume(sum(p) + n >= w and max(p) < w)
        places.append((sum(p) + n - w) // s + 1)
    x, u, e = tensor(shape, name), tensor(tuple(places), name), f"tensor<{name}>"
    body = (
        f"%c = stablehlo.constant dense<1> : tensor<i32>\n%z = stablehlo.convert %c : (tensor<i32>) -> {e}\n"
        f'%0 = "stablehlo.select_and_scatter"(%x, %u, %z) <{{window_dimensions = array<i64: {sizes[0]}, {sizes[1]}>, '
        f"window_strides = array<i64: {moves[0]}, {moves[1]}>, padding = dense<{[list(p) for p in pads]}> : tensor<2x2xi64>}}> ({{\n"
        f"^bb0(%l: {e}, %r: {e}):\n%s = stablehlo.compare GE, %l, %r : ({e}, {e}) -> tensor<i1>\n"
        f"stablehlo.return %s : tensor<i1>\n}}, {region('add', name)[1:-1]}) : ({x}, {u}, {e}) -> {x}\nreturn %0 : {x}"
    )
    arrays = values(shape, name, draw(st.integers(0, 50))), values(tuple(places), name, 1)
    check(function(body, f"%x: {x}, %u: {u}", x), *arrays)


def running(
    element: str, body: str, arguments: str, padding: str, count: int = 1, n: int = 40
) -> str:
    """Return a program of running totals of ``count`` operands of one type."""
    x, e = f"tensor<{n}x2x{element}>", f"tensor<{element}>"
    given = ", ".join([f"%x{i}" for i in range(count)] + [f"%z{i}" for i in range(count)])
    types = ", ".join([x] * count + [e] * count)
    results = ", ".join([x] * count)
    names = ", ".join(f"%0#{i}" for i in range(count)) if count > 1 else "%0"
    text = (
        f'%0{f":{count}" * (count > 1)} = "stablehlo.reduce_window"({given}) <{{window_dimensions = array<i64: {n}, 1>, '
        f"padding = dense<{padding}> : tensor<2x2xi64>}}> ({{\n^bb0({arguments}):\n{body}\n}}) : ({types}) -> ({results})\n"
        f"return {names} : {results}"
    )
    parameters = [f"%x{i}: {x}" for i in range(count)] + [f"%z{i}: {e}" for i in range(count)]
    return function(text, ", ".join(parameters), results)


LOG_SUM = """
%1 = stablehlo.maximum %a, %b : tensor<f32>
%2 = stablehlo.subtract %a, %b : tensor<f32>
%3 = stablehlo.abs %2 : tensor<f32>
%4 = stablehlo.negate %3 : tensor<f32>
%5 = stablehlo.exponential %4 : tensor<f32>
%6 = stablehlo.log_plus_one %5 : tensor<f32>
%7 = stablehlo.add %1, %6 : tensor<f32>
stablehlo.return %7 : tensor<f32>"""


@pytest.mark.parametrize("padding", ["[[39, 0], [0, 0]]", "[[0, 39], [0, 0]]"])
def test_running_totals_of_any_region_are_confirmed(padding: str) -> None:
    text = running("f32", LOG_SUM, "%a: tensor<f32>, %b: tensor<f32>", padding)
    x = np.random.default_rng(3).normal(size=(40, 2)).astype(np.float32)
    check(text, x, np.full((), -1e30, np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["[[39, 0], [0, 0]]", "[[0, 39], [0, 0]]"])
def test_running_totals_where_the_order_matters_are_the_reference_s(padding: str) -> None:
    body = (
        "%1 = stablehlo.subtract %b, %a : tensor<i32>\n%2 = stablehlo.abs %1 : tensor<i32>\n"
        "stablehlo.return %2 : tensor<i32>"
    )
    text = running("i32", body, "%a: tensor<i32>, %b: tensor<i32>", padding)
    x = np.random.default_rng(3).integers(-9, 9, (40, 2)).astype(np.int32)
    check(text, x, np.zeros((), np.int32))


def test_running_totals_of_two_operands() -> None:
    """The largest element so far, and the last of its places."""
    body = (
        "%1 = stablehlo.compare GT, %a, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "%2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<i32>\n"
        "%3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>\n"
        "stablehlo.return %2, %3 : tensor<i32>, tensor<i32>"
    )
    arguments = ", ".join(f"%{n}: tensor<i32>" for n in "abcd")
    text = running("i32", body, arguments, "[[39, 0], [0, 0]]", 2)
    x = np.random.default_rng(3).integers(-9, 9, (40, 2)).astype(np.int32)
    places = np.broadcast_to(np.arange(40, dtype=np.int32)[:, None], (40, 2)).copy()
    start = np.full((), -100, np.int32), np.full((), -1, np.int32)
    check(text, x, places, *start)


@pytest.mark.parametrize("combine", ["maximum", "minimum"])
@pytest.mark.parametrize("start", [-np.inf, np.inf, -0.0, 0.0, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_extremes_of_zeros_and_nan_have_the_reference_s_bits(
    combine: str, start: float, dtype: type
) -> None:
    element = {np.float32: "f32", np.float16: "f16"}.get(dtype, "bf16")
    region_text = region(combine, element)
    body = (
        f'%0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 1>, '
        f"padding = dense<[[0, 1]]> : tensor<1x2xi64>}}> {region_text} : (tensor<36x{element}>, tensor<{element}>) -> "
        f"tensor<36x{element}>\nreturn %0 : tensor<36x{element}>"
    )
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf])
    x = np.stack(np.meshgrid(special, special), -1).reshape(-1)[:36].astype(dtype)
    text = function(
        body, f"%x: tensor<36x{element}>, %z: tensor<{element}>", f"tensor<36x{element}>"
    )
    z = np.asarray(start, dtype)
    found = check(text, x, z)([x, z])[0]
    (wanted,) = evaluate(emu.sdy.parse(text), x, z)
    is_number = ~np.isnan(wanted.astype(np.float32))
    assert found[is_number].tobytes() == wanted[is_number].tobytes()


@pytest.mark.parametrize("padding", ["[[39, 0], [0, 0]]", "[[0, 39], [0, 0]]"])
@pytest.mark.parametrize("element", ["f8E5M2", "f8E4M3FN", "f16", "bf16"])
def test_running_sums_of_few_bits(element: str, padding: str) -> None:
    dtype = {
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
    }[element]
    e = f"tensor<{element}>"
    body = f"%1 = stablehlo.add %a, %b : {e}\nstablehlo.return %1 : {e}"
    text = running(element, body, f"%a: {e}, %b: {e}", padding)
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(dtype)
    # Those that begin in front are added in the reference's order.
    is_exact = padding.startswith("[[39") or element.startswith("f8")
    tolerance = 0.0 if is_exact else 0.2
    check(text, x, np.zeros((), dtype), rtol=tolerance, atol=tolerance)
