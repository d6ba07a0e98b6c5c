"""Removal of data-flow edges, whose shardings move to the edges' owners."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr
from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.dataflow import (
    data_flow_edge_of,
    edge_owners,
    is_data_flow_op,
    set_edge_owner_shardings,
)
from emu.sdy.dialect.edge_attributes import PropagationEdges
from emu.sdy.dialect.names import (
    BLOCK_ARG_PROPAGATION_EDGES,
    BLOCK_ARG_SHARDING_ORIGINS,
    PROPAGATION_EDGES,
    RESULT_PROPAGATION_EDGES,
    RESULT_SHARDING_ORIGINS,
    SHARDING_ORIGINS,
)
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.dialect.tensors import tensor_rank
from emu.sdy.passes.base import FunctionPass, Session


def shardings_of_edges(owners: Sequence[Value]) -> list[TensorSharding]:
    """Return the shardings of the owners' edges; open ones for those without a sharding.

    Empty if no edge has a sharding.
    """
    edges = [data_flow_edge_of(owner) for owner in owners]
    stored = [edge.properties.get("sharding") if edge is not None else None for edge in edges]
    shardings = [s if isinstance(s, TensorSharding) else None for s in stored]
    mesh = next((s.mesh for s in shardings if s is not None), None)
    if mesh is None:
        return []
    return [
        TensorSharding.fully_open(tensor_rank(owner), mesh) if sharding is None else sharding
        for sharding, owner in zip(shardings, owners, strict=True)
    ]


class SinkDataFlowEdges(FunctionPass, name="sdy-sink-data-flow-edges"):
    """Remove ``sdy.data_flow_edge``, and move their shardings to the edges' owners.

    Attributes:
        sink_debug_sharding_origins: Whether to keep origins of shardings, on the
            operation that owns the edge.
        sink_debug_propagation_edge_sharding: Whether to keep the steps of
            propagation in the same way.
    """

    sink_debug_sharding_origins: bool = False
    sink_debug_propagation_edge_sharding: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Visit each operation before its edges, which are inside or after it."""
        for each in op.walk():
            if each.name == "sdy.data_flow_edge":
                each.replace_with(each.operands)
            elif is_data_flow_op(each):
                arguments, results = edge_owners(each)
                self._sink(each, arguments, is_argument=True)
                self._sink(each, results, is_argument=False)

    def _sink(self, op: Operation, owners: Sequence[Value], *, is_argument: bool) -> None:
        if shardings := shardings_of_edges(owners):
            set_edge_owner_shardings(op, shardings, arguments=is_argument)
        edges = [edge for owner in owners if (edge := data_flow_edge_of(owner)) is not None]
        if self.sink_debug_sharding_origins:
            origins = [edge.attributes.get(SHARDING_ORIGINS) for edge in edges]
            name = BLOCK_ARG_SHARDING_ORIGINS if is_argument else RESULT_SHARDING_ORIGINS
            op.attributes[name] = _array([o for o in origins if isinstance(o, DictAttr)])
        if self.sink_debug_propagation_edge_sharding:
            steps = [edge.attributes.get(PROPAGATION_EDGES) for edge in edges]
            name = BLOCK_ARG_PROPAGATION_EDGES if is_argument else RESULT_PROPAGATION_EDGES
            op.attributes[name] = _array(
                [s for s in steps if isinstance(s, PropagationEdges) and s.steps]
            )


def _array(elements: Sequence[Attribute]) -> ArrayAttr:
    return ArrayAttr(tuple(elements))


class SinkFuncDataFlowEdges(FunctionPass, name="sdy-sink-func-data-flow-edges"):
    """Remove ``sdy.func_data_flow_edge``, and move their shardings to their operands."""

    def run(self, op: Operation, session: Session) -> None:
        """Replace each edge by its operand."""
        for each in op.walk():
            if each.name != "sdy.func_data_flow_edge":
                continue
            operand = each.operands[0]
            sharding = get_sharding(each.result)
            before = get_sharding(operand)
            if sharding is not None:
                set_sharding(operand, sharding)
            # The edge decides: without a sharding on it, the operand's becomes empty and open.
            elif before is not None:
                set_sharding(operand, TensorSharding.fully_open(before.rank, before.mesh))
            each.replace_with([operand])
