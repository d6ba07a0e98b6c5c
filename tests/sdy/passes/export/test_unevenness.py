"""Uneven shards: what pads stay apart, and what is gathered, so that results are those of the whole program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.sdy
import emu.sdy.execution.whole
from emu.sdy.execution.partitioned import partition
from emu.stablehlo.reference import evaluate, evaluate_devices

ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f32>"
OPERATIONS = {
    "element by element": ("%1 = stablehlo.exponential %x : tensor<{r}x{c}xf32>", "{r}x{c}"),
    "sum of rows": (
        (
            "%1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]"
            " : (tensor<{r}x{c}xf32>, tensor<f32>) -> tensor<{r}xf32>"
        ),
        "{r}",
    ),
    "sum of columns": (
        (
            "%1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]"
            " : (tensor<{r}x{c}xf32>, tensor<f32>) -> tensor<{c}xf32>"
        ),
        "{c}",
    ),
    "reshape": ("%1 = stablehlo.reshape %x : (tensor<{r}x{c}xf32>) -> tensor<{n}xf32>", "{n}"),
    "transpose": (
        "%1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<{r}x{c}xf32>) -> tensor<{c}x{r}xf32>",
        "{c}x{r}",
    ),
    "concatenation": (
        (
            "%1 = stablehlo.concatenate %x, %x, dim = 0"
            " : (tensor<{r}x{c}xf32>, tensor<{r}x{c}xf32>) -> tensor<{rr}x{c}xf32>"
        ),
        "{rr}x{c}",
    ),
    "product": (
        (
            "%1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]"
            " : (tensor<{r}x{c}xf32>, tensor<{r}x{c}xf32>) -> tensor<{r}x{r}xf32>"
        ),
        "{r}x{r}",
    ),
    "slice": (
        "%1 = stablehlo.slice %x [0:{r}, 1:{c}] : (tensor<{r}x{c}xf32>) -> tensor<{r}x{c1}xf32>",
        "{r}x{c1}",
    ),
}


def program(name: str, rows: int, columns: int, first: str, second: str) -> str:
    """A program that shards a matrix, evenly or not, applies an operation, and shards the result."""
    words = {"r": rows, "c": columns, "n": rows * columns, "rr": 2 * rows, "c1": columns - 1}
    body, shape = (text.format(**words) for text in OPERATIONS[name])
    a, b = f"tensor<{rows}x{columns}xf32>", f"tensor<{shape}xf32>"
    rank = shape.count("x") + 1
    dims = f"{{{second}}}" + ", {}" * (rank - 1)
    return f"""
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: {a}) -> {b} {{
  {ZERO}
  %0 = stablehlo.sine %a : {a}
  %x = sdy.sharding_constraint %0 <@mesh, [{{{first}}}, {{{'"y"' if first != '"y"' else '"x"'}}}]> : {a}
  {body}
  %2 = sdy.sharding_constraint %1 <@mesh, [{dims}]> : {b}
  %3 = stablehlo.cosine %2 : {b}
  return %3 : {b}
}}
"""


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(OPERATIONS)),
    rows=st.integers(1, 7),
    columns=st.integers(2, 9),
    first=st.sampled_from(["", '"x"', '"y"']),
    second=st.sampled_from(["", '"x"', '"y"', '"x", "y"']),
)
def test_uneven_shards_compute_what_the_whole_program_does(
    name: str, rows: int, columns: int, first: str, second: str
) -> None:
    module = emu.sdy.parse(program(name, rows, columns, first, second))
    found = partition(module)
    rng = np.random.default_rng(rows * 10 + columns)
    inputs = [rng.normal(size=p.type.static_shape).astype(np.float32) for p in found.inputs]
    (expected,) = evaluate(found.whole, *inputs)
    shards = [
        [p.shard(x, device) for p, x in zip(found.inputs, inputs, strict=True)]
        for device in range(found.n_devices)
    ]
    got = evaluate_devices(found.local, shards)
    whole = found.results[0].assemble([each[0] for each in got], range(found.n_devices))
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-5)


def lowered(text: str) -> str:
    module = emu.sdy.parse(text)
    emu.sdy.run_passes(module, "emu-resolve-uneven-shards")
    return str(module)


SUM = """
sdy.mesh @mesh = <["x"=4]>
func.func @f(%a: tensor<2x{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) -> tensor<2xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
      {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}]>]>}} : (tensor<2x{n}xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = sdy.all_reduce {{"x"}} %0 out_sharding=<@mesh, [{{}}]> : tensor<2xf32>
  return %1 : tensor<2xf32>
}}
"""


def test_a_sum_over_uneven_shards_is_one_of_the_whole_and_is_not_added_up_again() -> None:
    text = lowered(SUM.format(n=6))
    assert "sdy.reshard %arg0 <@mesh, [{}, {}]> : tensor<2x6xf32>" in text
    assert "sdy.all_reduce" not in text


def test_what_is_even_stays_as_it_is() -> None:
    module = emu.sdy.parse(SUM.format(n=8))
    assert lowered(SUM.format(n=8)) == str(module)


@pytest.mark.parametrize(
    ("old", "new", "between"),
    [
        ('{"x"}, {}', '{}, {"x"}', "{}, {}"),  # the axis moves: gathered, then sliced
        ('{"x"}, {}', "{}, {}", None),  # gathered only
        ("{}, {}", '{}, {"x"}', None),  # sliced only
        ('{"x"}, {"y"}', '{}, {"y"}', None),
        ('{"x"}, {"y"}', '{"y"}, {"x"}', "{}, {}"),
    ],
)
def test_a_reshard_of_uneven_dimensions_is_taken_apart(
    old: str, new: str, between: str | None
) -> None:
    text = f"""
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @f(%a: tensor<4x3xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{old}]>}}) -> tensor<4x3xf32> {{
  %0 = sdy.reshard %a <@mesh, [{new}]> : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}}
"""
    found = lowered(text)
    reshards = [line for line in found.splitlines() if "sdy.reshard" in line]
    assert len(reshards) == (1 if between is None else 2)
    if between is not None:
        assert f"<@mesh, [{between}]>" in reshards[0]
    assert f"<@mesh, [{new}]>" in reshards[-1]
