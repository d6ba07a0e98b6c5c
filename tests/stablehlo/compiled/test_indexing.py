"""Compiled gathers and scatters against the reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_compiled import check, function

import emu.sdy
from emu.stablehlo.reference import evaluate

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "ui8": np.uint8}
INDEX = st.integers(-3, 9)


def tensor(shape: tuple[int, ...], name: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + name + ">"


def values(shape: tuple[int, ...], name: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 50).astype(DTYPES[name])


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=25, deadline=None)
@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple))
def test_gather_and_scatter(name: str, data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Slices of any sizes at indices in and out of range, at any place of the result."""
    rank = len(shape)
    parts = data.draw(st.lists(st.integers(0, rank - 1), unique=True, min_size=1, max_size=rank))
    sizes = tuple(data.draw(st.integers(1, n)) for n in shape)
    collapsed = [d for d in range(rank) if sizes[d] == 1 and data.draw(st.booleans())]
    batch = tuple(data.draw(st.lists(st.integers(0, 4), max_size=2)))
    window = tuple(n for d, n in enumerate(sizes) if d not in collapsed)
    total = len(batch) + len(window)
    offsets = sorted(data.draw(st.permutations(range(total)))[: len(window)])
    if data.draw(st.booleans()):
        offsets = list(range(len(batch), total))
    others = iter(batch)
    inner = iter(window)
    found = tuple(next(inner) if d in offsets else next(others) for d in range(total))
    count = int(np.prod(batch, dtype=int)) * len(parts)
    indices = np.array(data.draw(st.lists(INDEX, min_size=count, max_size=count)), np.int32)
    indices = indices.reshape(*batch, len(parts))
    x, i, r = tensor(shape, name), tensor(indices.shape, "i32"), tensor(found, name)
    body = (
        f'%0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, '
        f"collapsed_slice_dims = {collapsed}, start_index_map = {parts}, index_vector_dim = {len(batch)}>, "
        f"slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}> : ({x}, {i}) -> {r}\nreturn %0 : {r}"
    )
    check(function(body, f"%x: {x}, %i: {i}", r), values(shape, name), indices, fallbacks=None)
    for region in (
        f"%s = stablehlo.add %o, %n : tensor<{name}>",
        f"%s = stablehlo.multiply %o, %n : tensor<{name}>",
        f"%s = stablehlo.maximum %o, %n : tensor<{name}>",
        f"%s = stablehlo.subtract %o, %n : tensor<{name}>",
        "",
    ):
        body = (
            f'%0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<'
            f"update_window_dims = {offsets}, inserted_window_dims = {collapsed}, "
            f"scatter_dims_to_operand_dims = {parts}, index_vector_dim = {len(batch)}>}}> ({{\n"
            f"^bb0(%o: tensor<{name}>, %n: tensor<{name}>):\n{region}\n"
            f"stablehlo.return {'%s' if region else '%n'} : tensor<{name}>\n}}) : ({x}, {i}, {r}) -> {x}\n"
            f"return %0 : {x}"
        )
        text = function(body, f"%x: {x}, %i: {i}, %u: {r}", x)
        updates = values(found, name, 1)
        check(text, values(shape, name), indices, updates, fallbacks=None)


@pytest.mark.parametrize("index", ["i32", "ui8", "i64"])
def test_rows_of_a_table(index: str) -> None:
    table, places = tensor((7, 5), "f32"), tensor((2, 3, 1), index)
    body = f"""
    %0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}}> : ({table}, {places}) -> tensor<2x3x5xf32>
    %1 = "stablehlo.scatter"(%x, %i, %0) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}}> ({{
    ^bb0(%o: tensor<f32>, %n: tensor<f32>):
      %s = stablehlo.add %o, %n : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({table}, {places}, tensor<2x3x5xf32>) -> {table}
    return %0, %1 : tensor<2x3x5xf32>, {table}"""
    text = function(body, f"%x: {table}, %i: {places}", f"tensor<2x3x5xf32>, {table}")
    dtype = {"i32": np.int32, "ui8": np.uint8, "i64": np.int64}[index]
    indices = np.array([0, 6, 200, 3, 3, 3], np.uint8).astype(dtype).reshape(2, 3, 1)
    check(text, values((7, 5), "f32"), indices)


@pytest.mark.parametrize("combine", ["maximum", "minimum"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_scatter_takes_the_extreme_with_the_reference_s_zeros_and_nan(
    combine: str, width: int
) -> None:
    """Rows of a table, and single elements of columns, which do not lie one behind the other."""
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0], np.float32)
    x = np.repeat(special, 7 * width).reshape(49, width)
    u = np.tile(special, 7 * width).reshape(width, 49).T.copy()
    i = np.concatenate([np.arange(49), [3, 60, -1]]).astype(np.int32).reshape(-1, 1)
    u = np.concatenate([u, u[:3]])
    n, e = len(u), "tensor<f32>"
    a, b, c = f"tensor<49x{width}xf32>", f"tensor<{n}x1xi32>", f"tensor<{n}x{width}xf32>"
    body = (
        '%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], '
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n"
        f"^bb0(%o: {e}, %n: {e}):\n%s = stablehlo.{combine} %o, %n : {e}\nstablehlo.return %s : {e}\n}}) : "
        f"({a}, {b}, {c}) -> {a}\nreturn %0 : {a}"
    )
    text = function(body, f"%x: {a}, %i: {b}, %u: {c}", a)
    found = check(text, x, i, u)([x, i, u])[0]
    (wanted,) = evaluate(emu.sdy.parse(text), x, i, u)
    known = ~np.isnan(wanted)
    assert found[known].tobytes() == wanted[known].tobytes()


@pytest.mark.parametrize("second", ["stablehlo.add %p, %q", "stablehlo.minimum %q, %p", ""])
def test_a_scatter_of_several_operands(second: str) -> None:
    """Each operand is combined by itself; of what the region returns crosswise the reference takes care."""
    e, f = "tensor<bf16>", "tensor<i32>"
    a, b, c = "tensor<9x3xbf16>", "tensor<9x3xi32>", "tensor<4x1xi32>"
    u, v = "tensor<4x3xbf16>", "tensor<4x3xi32>"
    region = (
        f"^bb0(%o: {e}, %p: {f}, %n: {e}, %q: {f}):\n"
        + (f"%s = {second} : {f}\n" if second else "")
        + f"stablehlo.return %n, {'%s' if second else '%p'} : {e}, {f}"
    )
    body = (
        '%0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        f"index_vector_dim = 1>}}> ({{\n{region}\n}}) : ({a}, {b}, {c}, {u}, {v}) -> ({a}, {b})\n"
        f"return %0#0, %0#1 : {a}, {b}"
    )
    arguments = f"%x: {a}, %y: {b}, %i: {c}, %u: {u}, %v: {v}"
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 3)), rng.integers(-9, 9, (9, 3)).astype(np.int32)
    i = np.array([[2], [8], [2], [11]], np.int32)
    given = (rng.normal(size=(4, 3)), rng.integers(-9, 9, (4, 3)).astype(np.int32))
    bf16 = ml_dtypes.bfloat16
    text = function(body, arguments, f"{a}, {b}")
    inputs = (x.astype(bf16), y, i, given[0].astype(bf16), given[1])
    check(text, *inputs, fallbacks=0 if second else 1)
