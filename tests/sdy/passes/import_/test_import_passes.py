"""Import passes against what Shardy writes, and what they say when they fail.

The golden pairs are ``NAME.mlir``, whose first line names the pass, and
``NAME.expected.mlir``, which Shardy's own passes wrote from it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.walker import (
    FunctionResult,
    Place,
    transform_sharding,
    transform_shardings,
    walk_shardings,
)
from emu.sdy.passes.import_.pipeline import ImportPipeline
from emu.sdy.passes.run import run

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(p.stem for p in GOLDEN.glob("*.mlir") if not p.stem.endswith(".expected"))


def after(text: str, passes: str) -> str:
    """The module's text after passes, without the words around it."""
    module = parse(text)
    run(module, passes)
    return str(module).rstrip("\n")


@pytest.mark.parametrize("name", NAMES)
def test_as_shardy_writes_it(name: str) -> None:
    text = (GOLDEN / f"{name}.mlir").read_text()
    passes = text.partition("\n")[0].removeprefix("// ")
    assert after(text, passes) == (GOLDEN / f"{name}.expected.mlir").read_text().rstrip("\n")


@pytest.mark.parametrize(
    "name",
    [
        "sdy-lift-inlined-meshes",
        "sdy-inline-meshes",
        "sdy-remove-size-one-axes",
        "sdy-manual-axes-cleanup",
        "sdy-sharding-group-import",
        "sdy-flatten-call-graph",
        "sdy-propagate-sharding-from-func-to-call",
    ],
)
def test_a_second_time_changes_nothing(name: str) -> None:
    for golden in ("import_pipeline_dedup", "lift_inlined_meshes", "flatten_call_graph"):
        text = (GOLDEN / f"{golden}.expected.mlir").read_text()
        module = parse(text)
        run(module, name)
        once = str(module)
        run(module, name)
        assert str(module) == once, golden


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
        run(module, "sdy-sharding-group-import")


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
        run(module, "sdy-sharding-group-import")


def test_a_manual_computation_that_only_does_something_fails() -> None:
    module = parse(
        """
sdy.mesh @m = <["x"=2]>
func.func @main() {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"x"} () {
    stablehlo.custom_call @effect() {has_side_effect = true} : () -> ()
    sdy.return
  } : () -> ()
  return
}"""
    )
    with pytest.raises(PassFailed, match="-:4:3: op has manual_axes when there are no in/out"):
        run(module, "sdy-manual-axes-cleanup")


def test_copying_a_function_is_told_once() -> None:
    text = (GOLDEN / "import_func_calls.mlir").read_text()
    (warning,) = run(parse(text), "sdy-import-func-calls")
    assert warning.message == (
        "function @leaf has multiple call ops, we need to clone the function body for each call"
    )


def test_without_a_main_function_edges_fail() -> None:
    module = parse("func.func @a() {\n  return\n}\nfunc.func @b() {\n  return\n}")
    with pytest.raises(PassFailed, match="Failed to lookup function: main"):
        run(module, "sdy-add-func-data-flow-edges")


def test_a_call_of_a_declaration_is_not_imported() -> None:
    module = parse(
        """
func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @elsewhere(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    )
    with pytest.raises(PassFailed, match="-:4:8: function @elsewhere has no body"):
        run(module, "sdy-import-func-calls")


def test_passes_of_the_pipeline() -> None:
    def names(**options: bool) -> list[str]:
        return [each.name for each in ImportPipeline(**options).passes()]

    assert names()[-1] == "sdy-add-data-flow-edges"
    assert names(dedup_functions_fully=True) == [
        *names(),
        "sdy-apply-sharding-constraints",
        "sdy-sharding-group-import",
    ]


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


# The walker

EVERYWHERE = """
sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}]>]>} : tensor<4xf32>
  %1:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x", ?}]>, <@m, [{"y", ?}]>]>} %0, %0 : tensor<4xf32>, tensor<4xf32>
  %2 = sdy.sharding_constraint %1#0 <@m, [{"x", "y"}]> : tensor<4xf32>
  %3 = sdy.manual_computation(%2) in_shardings=[<@m, [{"y", ?}]>] out_shardings=[<@m, [{"y", "x"}]>] manual_axes={"y"} (%arg2: tensor<2xf32>) {
    %4 = stablehlo.abs %arg2 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>} : tensor<2xf32>
    sdy.return %4 : tensor<2xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.custom_call @sink(%3) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[2]>, []>]>} : (tensor<4xf32>) -> ()
  return %3, %1#1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @outside(tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<4xf32>
"""


def described(place: Place) -> str:
    if place is None:
        return "nothing"
    if isinstance(place, FunctionResult):
        return f"{place.function.symbol_name} result {place.index}"
    op = place.defining_op
    return "argument" if op is None else op.name


def test_walker_meets_every_sharding_in_order() -> None:
    met: list[tuple[str, int]] = []
    visited: list[str] = []
    walk_shardings(
        parse(EVERYWHERE),
        lambda sharding, place: met.append((described(place), len(sharding.all_axes()))),
        lambda op: visited.append(op.name),
    )
    assert met == [
        ("argument", 1),
        ("main result 1", 1),
        ("stablehlo.add", 0),
        ("stablehlo.optimization_barrier", 1),
        ("stablehlo.optimization_barrier", 1),
        ("sdy.sharding_constraint", 2),
        ("argument", 1),
        ("sdy.manual_computation", 2),
        ("stablehlo.abs", 1),
        ("nothing", 0),
        ("nothing", 1),
    ]
    assert visited[:3] == ["builtin.module", "sdy.mesh", "func.func"]


def test_walker_changes_every_sharding() -> None:
    module = parse(EVERYWHERE)

    def renamed(sharding: TensorSharding, _: Place) -> TensorSharding:
        same = isinstance(sharding.mesh, Mesh)
        return sharding if same else TensorSharding("n", sharding.dims)

    transform_shardings(module, renamed)
    text = str(module)
    assert text.count("<@n, ") == EVERYWHERE.count("<@m, ")
    assert text == str(parse(EVERYWHERE)).replace("<@m, ", "<@n, ")


def test_one_sharding_is_changed_where_it_is() -> None:
    module = parse(EVERYWHERE)
    function = next(op for op in module.body() if op.name == "func.func")
    add = next(op for op in function.body() if op.name == "stablehlo.add")

    def opened(sharding: TensorSharding) -> TensorSharding:
        return TensorSharding.fully_open(sharding.rank, sharding.mesh)

    def shardings_in(op: Operation) -> list[str]:
        return re.findall(r"<@m, (\[[^\]]*\])", str(op).partition("\n")[0])

    for place in (FunctionResult(function, 1), add.operands[0], FunctionResult(function, 0)):
        transform_sharding(place, opened)
    assert shardings_in(function) == ["[{?}]", "[{?}]"]
