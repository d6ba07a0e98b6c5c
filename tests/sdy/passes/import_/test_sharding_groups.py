"""Import of sharding groups."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.run import run_passes


def after(text: str, passes: str) -> str:
    """The module's text after passes, without the words around it."""
    module = parse(text)
    run_passes(module, passes)
    return str(module).rstrip("\n")


def test_groups_in_and_outside_of_a_manual_computation_fail() -> None:
    module = parse(
        """
sdy.mesh @m = <["x"=2]>
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  sdy.sharding_group %arg0 group_id=8 : tensor<4xf32>
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{}]>] manual_axes={} (%arg1: tensor<4xf32>) {
    sdy.sharding_group %arg1 group_id=8 : tensor<4xf32>
    sdy.return %arg1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    )
    message = (
        "-:6:5: ShardingGroupOps values cannot cross ManualComputationOp boundaries for groupId: 8"
    )
    with pytest.raises(PassFailed, match=re.escape(message)):
        run_passes(module, "sdy-sharding-group-import")


def test_groups_of_different_shapes_fail() -> None:
    module = parse(
        """
func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4x1xf32>) {
  sdy.sharding_group %arg0 group_id=0 : tensor<4xf32>
  sdy.sharding_group %arg1 group_id=0 : tensor<4x1xf32>
  return
}"""
    )
    message = "-:4:3: ShardingGroupOps values must have the same shape for groupId: 0"
    with pytest.raises(PassFailed, match=re.escape(message)):
        run_passes(module, "sdy-sharding-group-import")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=12),
)
def test_groups_that_share_a_value_become_one(said: list[tuple[int, int]]) -> None:
    lines = [f"  sdy.sharding_group %arg{v} group_id={g} : tensor<4xf32>" for v, g in said]
    arguments = ", ".join(f"%arg{v}: tensor<4xf32>" for v in range(5))
    text = "\n".join([f"func.func @main({arguments}) {{", *lines, "  return", "}"])
    found = re.findall(r"group %arg(\d) group_id=(\d+)", after(text, "sdy-sharding-group-import"))
    groups = {int(v): int(g) for v, g in found}
    # Each value says its group once; the numbers are 0, 1, 2 … without a gap.
    assert len(found) == len(groups) == len({v for v, _ in said})
    assert set(groups.values()) == set(range(len(set(groups.values()))))
    # Two values are together exactly if a path of common groups leads there.
    reach = {v: {v} for v, _ in said}
    for _ in said:
        for v, g in said:
            for w, h in said:
                if g == h:
                    reach[v] |= reach[w]
    assert all((groups[v] == groups[w]) == (w in reach[v]) for v in groups for w in groups)
