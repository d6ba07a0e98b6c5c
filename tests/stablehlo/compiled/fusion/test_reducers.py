"""Reductions of kernels: which regions they know, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from stablehlo_fusion import (
    FLOATS,
    INTEGERS,
    check_same,
    edge_values,
    evaluate_fused,
    parse,
    reference,
    steps_of,
)
from variants import thorough

from emu.stablehlo.compiled.fusion import Group

SHAPES = {
    "rows": ((9, 70), 1, (9,)),
    "wide rows": ((3, 1000), 1, (3,)),
    "columns": ((70, 300), 0, (300,)),
    "the middle": ((3, 50, 40), 1, (3, 40)),
    "very long rows": ((2, 17007), 1, (2,)),
}


def tensor(shape: tuple[int, ...], element: str) -> str:
    """Return a type."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def argument_program(where: str, element: str, relation: str, start: str, nan: str = "NE") -> str:
    """Return a program that finds where the extremum of each line is, as JAX writes it."""
    shape, axis, result = SHAPES[where]
    whole, lines = tensor(shape, element), (tensor(result, element), tensor(result, "i32"))
    kind = "FLOAT" if element in FLOATS else "UNSIGNED" if element.startswith("u") else "SIGNED"
    pair = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    index = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
    return f"""
    func.func @main(%a: {whole}) -> {lines[1]} {{
      %i = stablehlo.iota dim = {axis} : {tensor(shape, "i32")}
      %s = stablehlo.constant dense<{start}> : tensor<{element}>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = "stablehlo.reduce"(%a, %i, %s, %z) <{{dimensions = array<i64: {axis}>}}> ({{
      ^bb0(%x: tensor<{element}>, %j: tensor<i32>, %y: tensor<{element}>, %k: tensor<i32>):
        %1 = stablehlo.compare {relation}, %x, %y, {kind} : {pair}
        %2 = stablehlo.compare {nan}, %x, %x, {kind} : {pair}
        %3 = stablehlo.or %1, %2 : tensor<i1>
        %4 = stablehlo.compare EQ, %x, %y, {kind} : {pair}
        %5 = stablehlo.compare LT, %j, %k, SIGNED : {index}
        %6 = stablehlo.and %4, %5 : tensor<i1>
        %7 = stablehlo.or %3, %6 : tensor<i1>
        %8 = stablehlo.select %3, %x, %y : tensor<i1>, tensor<{element}>
        %9 = stablehlo.select %7, %j, %k : tensor<i1>, tensor<i32>
        stablehlo.return %8, %9 : tensor<{element}>, tensor<i32>
      }}) : ({whole}, {tensor(shape, "i32")}, tensor<{element}>, tensor<i32>) -> ({lines[0]}, {lines[1]})
      return %0#1 : {lines[1]}
    }}
    """


@pytest.mark.parametrize("where", thorough(list(SHAPES), "rows", "columns", "the middle"))
@pytest.mark.parametrize("element", thorough(["f32", "bf16", "f64", "i32", "ui8"], "f32", "ui8"))
def test_the_place_of_an_extremum_is_that_of_the_reference(where: str, element: str) -> None:
    shape = SHAPES[where][0]
    size = int(np.prod(shape))
    rng = np.random.default_rng(size)
    for relation in ("GT", "LT"):
        start = {"GT": "-1.0e+30", "LT": "1.0e+30"}[relation]
        if element in INTEGERS:
            start = "0" if relation == "GT" else "127"
        module = parse(argument_program(where, element, relation, start))
        assert isinstance(steps_of(module)[-1], Group)
        few = rng.integers(1, 4, size).astype(edge_values(element, 1, 0).dtype)
        for values in (edge_values(element, size, 3), few):
            x = values.reshape(shape)
            check_same(evaluate_fused(module, x), reference(module, x), relation)


def test_regions_that_choose_otherwise_are_left_alone() -> None:
    known = argument_program("rows", "f32", "GT", "0.0")
    assert isinstance(steps_of(parse(known))[-1], Group)
    for text in (
        known.replace("compare LT, %j, %k", "compare GT, %j, %k"),  # the last one
        known.replace("compare NE, %x, %x", "compare EQ, %x, %x"),  # always the first
        known.replace("compare GT, %x, %y, FLOAT", "compare GT, %x, %y, TOTALORDER"),  # of zeros
        known.replace("stablehlo.iota dim = 1", "stablehlo.iota dim = 0"),  # no index
        known.replace("return %0#1 : tensor<9xi32>", "return %0#0 : tensor<9xf32>").replace(
            "-> tensor<9xi32> {", "-> tensor<9xf32> {"
        ),  # the value, whose zero may have either sign
    ):
        assert text != known
        assert not any(isinstance(step, Group) for step in steps_of(parse(text)))


def sum_program(where: str, element: str, name: str) -> str:
    """Return a program that reduces each line."""
    shape, axis, result = SHAPES[where]
    types = f"({tensor(shape, element)}, tensor<{element}>) -> {tensor(result, element)}"
    start = "1.0" if name == "multiply" and element in FLOATS else "1"
    start = start if name == "multiply" else "0.0" if element in FLOATS else "0"
    return f"""
    func.func @main(%a: {tensor(shape, element)}) -> {tensor(result, element)} {{
      %s = stablehlo.constant dense<{start}> : tensor<{element}>
      %0 = stablehlo.reduce(%a init: %s) applies stablehlo.{name} across dimensions = [{axis}] : {types}
      return %0 : {tensor(result, element)}
    }}
    """


@pytest.mark.parametrize("where", thorough(list(SHAPES), "rows"))
def test_extrema_and_integers_are_reduced_to_the_same_bits(where: str) -> None:
    shape = SHAPES[where][0]
    size = int(np.prod(shape))
    cases = [("maximum", e) for e in ("f32", "bf16", "f64", "i8", "ui32")]
    cases += [("minimum", e) for e in ("f32", "f16", "i64")]
    cases += [(name, e) for name in ("add", "multiply", "and", "or", "xor") for e in ("i32", "ui8")]
    for name, element in cases:
        module = parse(sum_program(where, element, name))
        assert all(isinstance(step, Group) for step in steps_of(module))
        x = edge_values(element, size, 1).reshape(shape)
        check_same(evaluate_fused(module, x), reference(module, x), f"{name} of {element}")


@pytest.mark.parametrize("where", SHAPES)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_sums_are_within_the_bound_of_any_order(where: str, element: str) -> None:
    """A sum of n numbers in any order is off by n * eps / 2 times the sum of their sizes at most."""
    shape, axis, _ = SHAPES[where]
    module = parse(sum_program(where, element, "add"))
    x = np.random.default_rng(0).normal(size=shape).astype(FLOATS[element])
    (found,) = evaluate_fused(module, x)
    exact = x.astype(np.longdouble).sum(axis)
    eps = np.finfo(found.dtype).eps
    bound = (shape[axis] + 1) * eps / 2 * np.abs(x.astype(np.longdouble)).sum(axis)
    assert (np.abs(found - exact) <= bound).all()
    # Lanes are summed apart, so that the error of long rows is far smaller than that.
    assert (np.abs(found - exact) <= bound / min(4, max(1, shape[axis] / 100))).all()


def test_sums_along_columns_are_added_in_order() -> None:
    module = parse(sum_program("columns", "f32", "add"))
    x = edge_values("f32", 70 * 300, 5).reshape(70, 300)
    check_same(evaluate_fused(module, x), reference(module, x))
