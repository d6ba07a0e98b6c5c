"""Insertion of data-flow edges as operations, on which propagation keeps shardings."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.diagnostics import Location
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import is_static_tensor
from emu.sdy.dialect.attributes import TensorShardingPerValue
from emu.sdy.dialect.dataflow import data_flow_edge_of, edge_owners, is_data_flow_op
from emu.sdy.dialect.functions import main_function
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.insertion_point import Place, location_of, replace_other_uses


def add_data_flow_edges(owners: Sequence[Value]) -> None:
    """Insert an ``sdy.data_flow_edge`` after each of these owners of edges.

    Values whose type is not a static tensor (tokens) get none, nor those that have one.
    """
    # Each edge goes right behind its owner; last first keeps the owners' order.
    for owner in reversed(owners):
        # A user's named computations have theirs before calls become named computations.
        if not is_static_tensor(owner.type) or data_flow_edge_of(owner) is not None:
            continue
        sharding = get_sharding(owner)
        edge = Operation(
            "sdy.data_flow_edge",
            [owner],
            [owner.type],
            properties={} if sharding is None else {"sharding": sharding},
            location=location_of(owner),
        )
        Place.after_value(owner).insert(edge)
        replace_other_uses(owner, edge.result)


class AddDataFlowEdges(ModulePass, name="sdy-add-data-flow-edges"):
    """Insert ``sdy.data_flow_edge`` for every owner of an edge.

    Owners are results of ``while``, ``case``, ``optimization_barrier``, and results
    and block arguments of manual and named computations. The edge takes over the
    owner's sharding.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Add the edges of all operations in a module."""
        add_edges_of(op)


def add_edges_of(root: Operation, *names: str) -> None:
    """Add the edges of the data-flow operations in ``root``, by default of all names."""
    for op in root.walk(post_order=True):
        if is_data_flow_op(op) and (not names or op.name in names):
            arguments, results = edge_owners(op)
            add_data_flow_edges(arguments)
            add_data_flow_edges(results)


def _func_edge(value: Value, location: Location) -> Operation:
    sharding = get_sharding(value)
    edge = Operation("sdy.func_data_flow_edge", [value], [value.type], location=location)
    if sharding is not None:
        edge.attributes["sdy.sharding"] = TensorShardingPerValue((sharding,))
    return edge


class AddFuncDataFlowEdges(ModulePass, name="sdy-add-func-data-flow-edges"):
    """Insert ``sdy.func_data_flow_edge`` for function arguments and call results.

    Arguments of the main function have no caller and get none.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Add the edges to a module."""
        main = main_function(op, SymbolTable(op), session.diagnostics)
        for function in op.walk(post_order=True):
            if function.name != "func.func" or function is main or not function.regions[0].blocks:
                continue
            body = function.body()
            first = body.first
            for argument in body.arguments:
                if is_static_tensor(argument.type):
                    edge = _func_edge(argument, function.location)
                    body.insert_before(first, edge)
                    replace_other_uses(argument, edge.result)
        for call in op.walk(post_order=True):
            if call.name != "func.call" or call.parent is None:
                continue
            following = call.next_op
            for result in call.results:
                if is_static_tensor(result.type):
                    edge = _func_edge(result, call.location)
                    call.parent.insert_before(following, edge)
                    replace_other_uses(result, edge.result)
