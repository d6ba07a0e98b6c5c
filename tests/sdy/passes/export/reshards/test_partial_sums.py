"""Unreduced arguments that are resharded are added up once."""

from __future__ import annotations

import random

import numpy as np
import pytest

import emu.sdy
from emu.sdy.execution.partitioned import partition
from emu.sdy.execution.shards import axis_coordinate, coordinates
from emu.stablehlo.reference.evaluate import evaluate_devices

USES = {
    "negate": ("stablehlo.negate %0 : tensor<8x8xf32>", lambda x, w: -x),
    "add": ("stablehlo.add %0, %0 : tensor<8x8xf32>", lambda x, w: x + x),
    "dot": (
        (
            "stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]"
            " : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"
        ),
        lambda x, w: x @ w,
    ),
}


def _sharding(rng: random.Random, axes: list[str], *, unreduced: bool) -> str:
    lists: list[list[str]] = [[], [], []]
    for axis in rng.sample(axes, len(axes)):
        lists[rng.choice([0, 1, 2, 2] if unreduced else [0, 1])].append(axis)
    first, second, left = (", ".join(each) for each in (*lists[:2], sorted(lists[2])))
    tail = f", unreduced={{{left}}}" if left else ""
    return f"<@mesh, [{{{first}}}, {{{second}}}]{tail}>"


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("op", ["reshard", "sharding_constraint"])
@pytest.mark.parametrize("seed", range(4))
def test_unreduced_arguments_are_added_up_once(seed: int, op: str, use: str) -> None:
    rng = random.Random(seed)
    text, meaning = USES[use]
    axes = ['"x"', '"y"'] if seed % 2 else ['"x":(2)2', '"y"']
    program = partition(
        emu.sdy.parse(f"""
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding{_sharding(rng, axes, unreduced=True)}}},
    %w: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %0 = sdy.{op} %a {_sharding(rng, axes[: rng.randint(0, 2)], unreduced=False)} : tensor<8x8xf32>
  %1 = {text}
  return %1 : tensor<8x8xf32>
}}""")
    )
    values = np.random.default_rng(seed)
    placement, weights = program.inputs
    assert placement.sharding is not None
    whole = np.zeros((8, 8), np.float32)
    w = values.integers(-4, 4, (8, 8)).astype(np.float32)
    parts: dict[object, np.ndarray] = {}
    inputs = []
    for device in range(8):
        place = coordinates(placement.mesh, device)
        terms = tuple(
            axis_coordinate(axis, placement.mesh, place)
            for axis in placement.sharding.unreduced_axes
        )
        row, column = starts = placement.starts(device)
        if (terms, starts) not in parts:
            part = values.integers(-4, 4, placement.local_shape).astype(np.float32)
            parts[terms, starts] = part
            whole[row : row + part.shape[0], column : column + part.shape[1]] += part
        inputs.append([parts[terms, starts], weights.shard(w, device)])
    for device, (found,) in enumerate(evaluate_devices(program.local, inputs)):
        expected = program.results[0].shard(meaning(whole, w), device)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "source", ["[{}, {}]", '[{"x"}, {}]', '[{"x":(1)2}, {"x":(2)2}]', '[{"y"}, {"x"}]']
)
def test_partial_sums_are_made_of_values(source: str) -> None:
    program = partition(
        emu.sdy.parse(f"""
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {source}>}}) -> tensor<8x8xf32> {{
  %0 = sdy.reshard %a <@mesh, [{{}}, {{}}], unreduced={{"x"}}> : tensor<8x8xf32>
  %1 = sdy.reshard %0 <@mesh, [{{}}, {{"y"}}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}}""")
    )
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    inputs = [[program.inputs[0].shard(whole, device)] for device in range(8)]
    for device, (found,) in enumerate(evaluate_devices(program.local, inputs)):
        np.testing.assert_array_equal(found, program.results[0].shard(whole, device))
