"""Compiled reductions that are not fused, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function
from stablehlo_reducers import DTYPES, NAMES, STARTS, region, tensor, values


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("combine", NAMES)
@settings(max_examples=10, deadline=None)
@given(st.data(), st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple))
def test_reduce(combine: str, name: str, data: st.DataObject, shape: tuple[int, ...]) -> None:
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    kept = tuple(n for d, n in enumerate(shape) if d not in dims)
    x, r = tensor(shape, name), tensor(kept, name)
    start = STARTS[combine] if name != "ui8" else abs(STARTS[combine])
    body = (
        f"%c = stablehlo.constant dense<{start}{'' if 'i' in name else '.0'}> : tensor<{name}>\n"
        f'%0 = "stablehlo.reduce"(%x, %c) <{{dimensions = array<i64{": " if dims else ""}'
        f"{', '.join(map(str, dims))}>}}> {region(combine, name)} : ({x}, tensor<{name}>) -> {r}\n"
        f"return %0 : {r}"
    )
    tolerance = 10 * DTYPES[name][1]
    inputs = values(shape, name, data.draw(st.integers(0, 50)))
    check(function(body, f"%x: {x}", r), inputs, rtol=tolerance, atol=tolerance, fallbacks=None)


@pytest.mark.parametrize("direction", ["GT", "LT"])
@pytest.mark.parametrize("name", ["f32", "i32", "bf16"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("step", [1, -1])
def test_argmax(direction: str, name: str, axis: int, step: int) -> None:
    shape = (5, 7)
    x, e = tensor(shape, name), f"tensor<{name}>"
    r = f"tensor<{shape[1 - axis]}xi32>"
    kept = tensor((shape[1 - axis],), name)
    body = f"""
    %i = stablehlo.iota dim = {axis} : tensor<5x7xi32>
    %k = stablehlo.constant dense<{step}> : tensor<5x7xi32>
    %j = stablehlo.multiply %i, %k : tensor<5x7xi32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = "stablehlo.reduce"(%x, %j, %s, %z) <{{dimensions = array<i64: {axis}>}}> ({{
    ^bb0(%a: {e}, %b: tensor<i32>, %c: {e}, %d: tensor<i32>):
      %1 = stablehlo.compare {direction}, %a, %c : ({e}, {e}) -> tensor<i1>
      %2 = stablehlo.compare NE, %a, %a : ({e}, {e}) -> tensor<i1>
      %3 = stablehlo.or %1, %2 : tensor<i1>
      %4 = stablehlo.compare EQ, %a, %c : ({e}, {e}) -> tensor<i1>
      %5 = stablehlo.compare LT, %b, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %6 = stablehlo.and %4, %5 : tensor<i1>
      %7 = stablehlo.or %3, %6 : tensor<i1>
      %8 = stablehlo.select %3, %a, %c : tensor<i1>, {e}
      %9 = stablehlo.select %7, %b, %d : tensor<i1>, tensor<i32>
      stablehlo.return %8, %9 : {e}, tensor<i32>
    }}) : ({x}, tensor<5x7xi32>, {e}, tensor<i32>) -> ({kept}, {r})
    return %0#1 : {r}"""
    text = function(body, f"%x: {x}, %s: {e}", r)
    dtype = DTYPES[name][0]
    rng = np.random.default_rng(0)
    found = rng.integers(-3, 4, shape).astype(dtype)
    if name != "i32":
        found[2, 3] = found[4, 3] = found[2, 5] = np.nan
    for start in (-100, 100, 2):
        check(text, found, np.asarray(start, dtype))
