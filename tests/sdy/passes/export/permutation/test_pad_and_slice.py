"""Pads, slices and reverses of sharded dimensions give what they give on whole arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sdy_devices import by_hand, on_devices, operations, whole

PIPELINES = ["emu-partition-pipeline", by_hand(), by_hand(halo=False)]
MESHES = {
    '["x"=2]': ["x"],
    '["x"=4]': ["x", "x:(1)2", "x:(2)2"],
    '["x"=3, "y"=2]': ["x", "y", "x,y", "y,x"],
    '["x"=2, "y"=4], device_ids=[3, 1, 0, 2, 7, 6, 5, 4]': ["x", "y", "x,y:(2)2", "y:(1)2,x"],
}


def axes_text(axes: str) -> str:
    words = [axis.partition(":") for axis in axes.split(",")]
    return "{" + ", ".join(f'"{name}"{colon}{part}' for name, colon, part in words) + "}"


@st.composite
def cuts(draw: st.DrawFn) -> tuple[str, str]:
    mesh = draw(st.sampled_from(sorted(MESHES)))
    return mesh, axes_text(draw(st.sampled_from(MESHES[mesh])))


def program(mesh: str, axes: str, size: int, line: str, new: int, other: int = 2) -> str:
    def sharded(dims: str) -> str:
        return f"{{sdy.sharding = #sdy.sharding_per_value<[<@m, [{dims}]>]>}}"

    there = f"{axes}, {{}}"
    return f"""
sdy.mesh @m = <{mesh}>
func.func @main(%a: tensor<{size}x3xi32>, %p: tensor<i32>)
    -> (tensor<{new}x{other}xi32> {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{}}]>}}) {{
  %0 = sdy.reshard %a <@m, [{there}]> : tensor<{size}x3xi32>
  {line.format(sharded(there))}
  %2 = sdy.reshard %1 <@m, [{{}}, {{}}]> : tensor<{new}x{other}xi32>
  return %2 : tensor<{new}x{other}xi32>
}}"""


def check(text: str, size: int, passes: str) -> None:
    given_ = np.arange(1, size * 3 + 1, dtype=np.int32).reshape(size, 3)
    filler = np.int32(-7)
    (got,) = on_devices(text, given_, np.asarray(filler), passes=passes)
    (expected,) = whole(text, given_, np.asarray(filler))
    np.testing.assert_array_equal(got, expected)


@settings(deadline=None, max_examples=30)
@given(
    cuts(),
    st.integers(1, 9),
    st.integers(-4, 9),
    st.integers(-4, 9),
    st.integers(0, 2),
    st.sampled_from(PIPELINES),
)
@example(('["x"=2]', '{"x"}'), 1, 0, 2, 0, PIPELINES[2])  # what evens shards would move
def test_pads(
    cut: tuple[str, str], size: int, low: int, high: int, interior: int, passes: str
) -> None:
    """The padding is not zero: a device without a neighbour gets zeros from a permutation."""
    new = size + (size - 1) * interior + low + high
    if new < 1 or -low > size or -high > size:
        return
    line = (
        f"%1 = stablehlo.pad %0, %p, low = [{low}, 0], high = [{high}, -1], "
        f"interior = [{interior}, 0] {{0}} : (tensor<{size}x3xi32>, tensor<i32>) -> tensor<{new}x2xi32>"
    )
    check(program(*cut, size, line, new), size, passes)


@settings(deadline=None, max_examples=30)
@given(
    cuts(),
    st.integers(1, 12),
    st.integers(0, 6),
    st.integers(1, 12),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from(PIPELINES),
)
def test_slices(
    cut: tuple[str, str], size: int, start: int, count: int, stride: int, passes: str
) -> None:
    limit = min(size, start + count)
    if limit <= start:
        return
    new = -(-(limit - start) // stride)
    line = (
        f"%1 = stablehlo.slice %0 [{start}:{limit}:{stride}, 0:3:2] {{0}} "
        f": (tensor<{size}x3xi32>) -> tensor<{new}x2xi32>"
    )
    check(program(*cut, size, line, new), size, passes)


@settings(deadline=None, max_examples=30)
@given(cuts(), st.integers(1, 12), st.sampled_from(PIPELINES))
def test_reverses(cut: tuple[str, str], size: int, passes: str) -> None:
    line = f"%1 = stablehlo.reverse %0, dims = [0, 1] {{0}} : tensor<{size}x3xi32>"
    check(program(*cut, size, line, size, 3), size, passes)


def test_neighbours_are_asked_and_nothing_is_gathered() -> None:
    line = (
        "%1 = stablehlo.pad %0, %p, low = [3, 0], high = [1, -1], interior = [0, 0] {0} "
        ": (tensor<8x3xi32>, tensor<i32>) -> tensor<12x2xi32>"
    )
    text = program('["x"=4]', '{"x"}', 8, line, 12)
    names = [op.name for op in operations(text, by_hand())]
    assert names.count("stablehlo.collective_permute") == 1
    # The result is gathered at the end, and nothing before.
    assert names.count("stablehlo.all_gather") == 1
    names = [op.name for op in operations(text, by_hand(halo=False))]
    assert "stablehlo.collective_permute" not in names
    assert names.count("stablehlo.all_gather") == 2


@pytest.mark.parametrize("passes", PIPELINES)
def test_a_shift_that_keeps_the_size(passes: str) -> None:
    """Shardy's rule passes the dimension through, and so gives each device's own elements."""
    line = (
        "%1 = stablehlo.pad %0, %p, low = [1, 0], high = [-1, -1], interior = [0, 0] {0} "
        ": (tensor<8x3xi32>, tensor<i32>) -> tensor<8x2xi32>"
    )
    check(program('["x"=4]', '{"x"}', 8, line, 8), 8, passes)
