"""Compiled sorts against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

COMPARATORS = {
    "ascending": "%t = stablehlo.compare LT, %a, %b : ({e}, {e}) -> tensor<i1>",
    "descending": "%t = stablehlo.compare GT, %a, %b : ({e}, {e}) -> tensor<i1>",
    "total": "%t = stablehlo.compare LT, %a, %b, TOTALORDER : ({e}, {e}) -> tensor<i1>",
    "not strict": "%t = stablehlo.compare LE, %a, %b : ({e}, {e}) -> tensor<i1>",
    "by magnitude": """%m = stablehlo.multiply %a, %a : {e}
        %k = stablehlo.multiply %b, %b : {e}
        %t = stablehlo.compare LT, %m, %k : ({e}, {e}) -> tensor<i1>""",
    "by both": """%s = stablehlo.compare LT, %a, %b : ({e}, {e}) -> tensor<i1>
        %q = stablehlo.compare EQ, %a, %b : ({e}, {e}) -> tensor<i1>
        %u = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %v = stablehlo.and %q, %u : tensor<i1>
        %t = stablehlo.or %s, %v : tensor<i1>""",
}
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.nan, np.inf, -np.inf, 3.5])


@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize("name", ["f32", "i32", "ui8"])
@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 1), st.integers(0, 9), st.integers(0, 3))
def test_sort(
    comparator: str, name: str, data: st.DataObject, dimension: int, length: int, width: int
) -> None:
    if comparator == "total" and name != "f32":
        return
    shape = (length, width) if dimension == 0 else (width, length)
    count = length * width
    found = data.draw(st.lists(NUMBERS, min_size=count, max_size=count))
    x = np.array(found, np.float64).reshape(shape)
    if name != "f32":
        x = np.nan_to_num(x, nan=5, posinf=7, neginf=-8)
    dtype = {"f32": np.float32, "i32": np.int32, "ui8": np.int64}[name]
    x = x.astype(dtype).astype(np.uint8) if name == "ui8" else x.astype(dtype)
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.int32)
    e, both = f"tensor<{name}>", f"tensor<{shape[0]}x{shape[1]}x"
    body = (
        f'%0:2 = "stablehlo.sort"(%x, %y) <{{dimension = {dimension} : i64, is_stable = true}}> ({{\n'
        f"^bb0(%a: {e}, %b: {e}, %c: tensor<i32>, %d: tensor<i32>):\n{COMPARATORS[comparator].format(e=e)}\n"
        f"stablehlo.return %t : tensor<i1>\n}}) : ({both}{name}>, {both}i32>) -> ({both}{name}>, {both}i32>)\n"
        f"return %0#0, %0#1 : {both}{name}>, {both}i32>"
    )
    text = function(body, f"%x: {both}{name}>, %y: {both}i32>", f"{both}{name}>, {both}i32>")
    bound = check(text, x, y.reshape(shape), fallbacks=None)
    assert bound is not None


def test_a_comparator_that_nan_confuses_is_the_references() -> None:
    body = """
    %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>"""
    text = function(body, "%x: tensor<4xf32>", "tensor<4xf32>")
    check(text, np.array([5, 1, np.nan, 2], np.float32))


@pytest.mark.parametrize("name", ["i32", "i64", "ui64", "f32"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_the_first_elements_are_sorted_alone(name: str, direction: str, limit: int) -> None:
    """Only slices look at the results; ties keep their order."""
    e, t, s = f"tensor<{name}>", f"tensor<2x50x{name}>", f"tensor<2x{limit}x{name}>"
    p, q = "tensor<2x50xi32>", f"tensor<2x{limit}xi32>"
    body = f"""
    %i = stablehlo.iota dim = 1 : {p}
    %0:2 = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
    ^bb0(%a: {e}, %b: {e}, %c: tensor<i32>, %d: tensor<i32>):
      %t = stablehlo.compare {direction}, %a, %b : ({e}, {e}) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }}) : ({t}, {p}) -> ({t}, {p})
    %1 = stablehlo.slice %0#0 [0:2, 0:{limit}] : ({t}) -> {s}
    %2 = stablehlo.slice %0#1 [0:2, 0:{limit}] : ({p}) -> {q}
    return %1, %2 : {s}, {q}"""
    text = function(body, f"%x: {t}", f"{s}, {q}")
    dtype = {"i32": np.int32, "i64": np.int64, "ui64": np.uint64, "f32": np.float32}[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 7, (2, 50)).astype(dtype)
    check(text, x)
    if name == "f32":
        # The order that NaN confuses is the reference's.
        x[0, 7] = np.nan
        check(text, x)
        return
    limits = np.iinfo(dtype)
    most, least = dtype(limits.max), dtype(limits.min)
    check(text, np.where(x == 3, most, x))
    check(text, np.where(x == 3, most, least))
    check(text, np.full((2, 50), most))
    check(text, np.full((2, 50), least))
