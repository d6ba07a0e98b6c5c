"""Edges of loops, cases, barriers and computations."""

from __future__ import annotations

import pytest

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir import parse
from emu.mlir.ir import Operation
from emu.sdy.dialect import dataflow as flow
from emu.sdy.dialect import shardings as sh
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, TensorSharding

PROGRAM = """
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
  %w:2 = stablehlo.while(%i = %n, %v = %a) : tensor<i32>, tensor<8xf32>
    cond {
    %c = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.negate %v : tensor<8xf32>
    stablehlo.return %i, %d : tensor<i32>, tensor<8xf32>
  }
  %we = sdy.data_flow_edge %w#1 sharding=<@grid, [{"y", ?}]> : tensor<8xf32>
  %k = "stablehlo.case"(%n) ({
    %e = stablehlo.abs %we : tensor<8xf32>
    stablehlo.return %e : tensor<8xf32>
  }, {
    stablehlo.return %we : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %ke = sdy.data_flow_edge %k : tensor<8xf32>
  %o:2 = stablehlo.optimization_barrier %ke, %n : tensor<8xf32>, tensor<i32>
  %m = sdy.manual_computation(%o#0) in_shardings=[<@grid, [{"x", "y"}]>]
      out_shardings=[<@grid, [{"x", ?}]>] manual_axes={"x"} (%p: tensor<4xf32>) {
    %pe = sdy.data_flow_edge %p sharding=<@grid, [{"y"}]> : tensor<4xf32>
    %t = stablehlo.tanh %pe : tensor<4xf32>
    sdy.return %t : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %q = sdy.named_computation<"body">(%m) (%r: tensor<8xf32>) {
    sdy.return %r : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %q : tensor<8xf32>
}
"""


def cut(axes: str, *, open_: bool = False) -> TensorSharding:
    axis_refs = tuple(map(AxisRef, axes.split()))
    return TensorSharding("grid", (DimensionSharding(axis_refs, not open_),))


class Program:
    """The operations by a short name."""

    def __init__(self) -> None:
        self.module = parse(PROGRAM, verify=False)
        by_name = {op.name: op for op in self.module.walk()}
        self.loop = by_name["stablehlo.while"]
        self.case = by_name["stablehlo.case"]
        self.barrier = by_name["stablehlo.optimization_barrier"]
        self.manual = by_name["sdy.manual_computation"]
        self.named = by_name["sdy.named_computation"]
        edges = [op for op in self.module.walk() if op.name == "sdy.data_flow_edge"]
        self.loop_edge, self.case_edge, self.manual_edge = edges


@pytest.fixture
def program() -> Program:
    return Program()


def test_which_operations_have_edges(program: Program) -> None:
    flows = [op for op in program.module.walk() if flow.is_data_flow_op(op)]
    assert flows == [program.loop, program.case, program.barrier, program.manual, program.named]
    assert [op for op in flows if flow.keeps_edges_divisible(op)] == [program.manual]
    assert flow.manual_axes_of(program.manual) == ("x",)


def test_a_loop(program: Program) -> None:
    loop = program.loop
    owner = loop.results[1]
    condition, body = (region.blocks[0] for region in loop.regions)
    assert flow.edge_owners(loop) == ([], loop.results)
    assert flow.edge_sources(loop, owner) == [(loop, 1), (body.terminator, 1)]
    assert flow.body_terminator(loop) is body.terminator
    for target in (owner, condition.arguments[1], body.arguments[1]):
        assert flow.edge_owner_from_target(target) is owner
        assert flow.edge_of_target(target) is program.loop_edge
        assert sh.shardable_value(target) is program.loop_edge.result
        assert sh.get_sharding(target) == cut("y", open_=True)
    for source in ((loop, 1), (body.terminator, 1)):
        assert flow.edge_owner_from_source(loop, source) is owner
        assert flow.edge_of_source(source) is program.loop_edge
    assert flow.non_owner_targets(loop, owner) == [condition.arguments[1], body.arguments[1]]
    assert flow.edge_of_target(loop.results[0]) is None
    assert flow.edge_of_source((loop, 0)) is None
    assert sh.shardable_value(body.arguments[0]) is loop.results[0]


def test_the_edge_holds_the_sharding_of_all_targets(program: Program) -> None:
    argument = program.loop.regions[1].blocks[0].arguments[1]
    sh.set_sharding(argument, cut("x"))
    assert program.loop_edge.properties["sharding"] == cut("x")
    assert sh.get_sharding(program.loop.results[1]) == cut("x")
    assert not program.loop.attributes


def test_owners_without_an_edge_operation(program: Program) -> None:
    argument = program.loop.regions[0].blocks[0].arguments[0]
    scalar = TensorSharding("grid")
    sh.set_sharding(argument, scalar)
    # The result holds it, together with an open one for the other result.
    assert sh.get_shardings(program.loop) == (scalar, cut("", open_=True))
    assert sh.get_sharding(argument) == scalar


def test_a_case(program: Program) -> None:
    case = program.case
    first, second = (region.blocks[0].terminator for region in case.regions)
    assert flow.edge_sources(case, case.result) == [(first, 0), (second, 0)]
    assert flow.edge_owner_from_target(case.result) is case.result
    assert flow.edge_of_source((second, 0)) is program.case_edge
    assert flow.edge_op_sources(program.case_edge) == [
        first.operands[0],
        program.loop_edge.result,
    ]
    assert flow.edge_op_non_owner_targets(program.case_edge) == []
    assert len(flow.edge_op_non_owner_targets(program.loop_edge)) == 2
    # The index counts as a source of the first edge, as Shardy has it.
    assert flow.edge_of_source((case, 0)) is program.case_edge


def test_an_optimization_barrier(program: Program) -> None:
    barrier = program.barrier
    assert flow.edge_sources(barrier, barrier.results[1]) == [(barrier, 1)]
    assert flow.edge_owner_from_source(barrier, (barrier, 0)) is barrier.results[0]
    assert flow.non_owner_targets(barrier, barrier.results[0]) == []
    sh.set_sharding(barrier.results[0], cut("x"))
    assert sh.get_sharding(barrier.results[0]) == cut("x")


def test_what_is_no_source(program: Program) -> None:
    edge = program.loop_edge
    main = program.module.body().last
    assert main is not None
    assert flow.edge_of_source((edge, 0)) is None
    assert flow.edge_of_source((main.body().terminator, 0)) is None
    assert flow.edge_of_target(edge.result) is None
    assert flow.edge_of_target(main.body().arguments[0]) is None
    assert flow.data_flow_edge_of(None) is None
    assert flow.data_flow_edge_of(edge.result) is None


def computation(program: Program, name: str) -> Operation:
    return program.manual if name == "manual" else program.named


@pytest.mark.parametrize("name", ["manual", "named"])
def test_computations(program: Program, name: str) -> None:
    op = computation(program, name)
    (argument,) = op.body().arguments
    returned = (op.body().terminator, 0)
    assert flow.edge_owners(op) == ([argument], [op.result])
    assert flow.edge_sources(op, argument) == [(op, 0)]
    assert flow.edge_sources(op, op.result) == [returned]
    assert flow.edge_owner_from_target(argument) is argument
    assert flow.edge_owner_from_source(op, returned) is op.result
    # Not the argument: see the function's note.
    assert flow.edge_owner_from_source(op, (op, 0)) is op.operands[0]
    assert flow.edge_of_source((op, 0)) is None
    assert flow.non_owner_targets(op, argument) == []


def test_shardings_of_a_manual_computation(program: Program) -> None:
    manual = program.manual
    (argument,) = manual.body().arguments
    # Its body sees free axes only.
    assert flow.edge_owner_sharding(manual, argument) == cut("y")
    assert flow.edge_owner_shardings(manual, arguments=True) == (cut("y"),)
    assert flow.edge_owner_sharding(manual, manual.result) == cut("x", open_=True)
    flow.set_edge_owner_sharding(manual, argument, cut("", open_=True))
    assert manual.properties["in_shardings"].shardings == (cut("x", open_=True),)  # type: ignore[attr-defined]
    flow.set_edge_owner_sharding(manual, manual.result, cut("x y"))
    assert manual.properties["out_shardings"].shardings == (cut("x y"),)  # type: ignore[attr-defined]
    # The argument's edge holds what is asked for through it.
    assert sh.get_sharding(argument) == cut("y")
    assert sh.shardable_value(argument) is program.manual_edge.result
    assert sh.get_sharding(manual.result) == cut("x y")


def test_the_two_sides_of_a_manual_computation(program: Program) -> None:
    manual = program.manual
    (argument,) = manual.body().arguments
    before, after = flow.When.BEFORE_EDGE_PROPAGATION, flow.When.AFTER_EDGE_PROPAGATION
    assert flow.transform_target_sharding(manual, argument, cut("y"), before) == cut("x y")
    assert flow.transform_target_sharding(manual, argument, cut("x y"), after) == cut("y")
    result = manual.result
    assert flow.transform_target_sharding(manual, result, cut("x y"), before) == cut("y")
    assert flow.transform_target_sharding(manual, result, cut("y"), after) == cut("x y")
    assert flow.edge_op_transform(program.manual_edge, cut("y"), before) == cut("x y")
    other = program.loop.results[1]
    assert flow.transform_target_sharding(program.loop, other, cut("x"), before) == cut("x")


def test_shardings_of_a_named_computation(program: Program) -> None:
    named = program.named
    (argument,) = named.body().arguments
    assert sh.get_sharding(argument) is None
    assert sh.get_sharding(named.result) is None
    sh.set_sharding(argument, cut("x"))
    sh.set_sharding(named.result, cut("y"))
    assert sh.get_sharding(argument) == cut("x")
    assert sh.get_sharding(named.result) == cut("y")
    assert set(named.properties) == {"name", "in_shardings", "out_shardings"}
