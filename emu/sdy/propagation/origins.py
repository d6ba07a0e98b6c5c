"""Origins of shardings, kept in ``sdy.sharding_origins`` and ``sdy.propagation_edges``.

Origins name, for each axis of a value, the input, output, constraint or manual
computation that brought it into the module. Edges record, for each operation,
the step in which an axis went from one operand or result to others. The passes'
options ``debug-sharding-origins`` and ``debug-propagation-edge-sharding`` leave
these attributes on the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.sdy.dialect.attributes import (
    AxisRef,
    Mesh,
    OpShardingRule,
    TensorMapping,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.axes import can_merge, contains, merge
from emu.sdy.dialect.dataflow import edge_of_target, edge_op_sources, owning_op
from emu.sdy.dialect.edge_attributes import (
    AxisToPropagationDetails,
    EdgeNodeType,
    EdgeValueRef,
    PropagationEdges,
    PropagationOneStep,
)
from emu.sdy.dialect.functions import (
    func_arg_attribute,
    func_result_attribute,
    func_result_sharding,
    function_type,
    set_func_arg_attribute,
    set_func_result_attribute,
)
from emu.sdy.dialect.meshes import common_mesh
from emu.sdy.dialect.names import PROPAGATION_EDGES, SHARDING_ORIGIN_NAME, SHARDING_ORIGINS
from emu.sdy.dialect.shardings import get_sharding, get_shardings, shardable_value
from emu.sdy.propagation.driver import Visit
from emu.sdy.propagation.projection import (
    Axes,
    Prefix,
    Projection,
    TensorFactors,
    list_prefix,
    project,
)

_SELF = StringAttr("self")


@dataclass(frozen=True, slots=True)
class Move:
    """Movement of axes between the tensors of a rule.

    Attributes:
        rule: The rule.
        before: The shardings by factor before it.
        after: The shardings by factor after it.
        mesh: The mesh.
    """

    rule: OpShardingRule
    before: Projection
    after: Projection
    mesh: Mesh


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge along which an axis went from one tensor of an operation to another."""

    source: EdgeValueRef
    target: EdgeValueRef
    step: int


class SourceTracker:
    """An observer of the driver that follows axes and records where they came from.

    Args:
        module: The module, before propagation.
        origins: Whether to record origins.
        edges: Whether to record edges.
    """

    def __init__(self, module: Operation, *, origins: bool, edges: bool) -> None:
        self._module = module
        self._with_origins = origins
        self._with_edges = edges
        self._step = 0
        self._origins: dict[Value, dict[AxisRef, str]] = {}
        self._edges: dict[Operation, dict[AxisRef, list[_Edge]]] = {}
        if self.is_enabled:
            self._step = _last_step(module) + 1
        if origins:
            self._find_constraints()
            self._find_manual_computations()
            self._find_functions()

    @property
    def is_enabled(self) -> bool:
        """Whether there is anything to record."""
        return self._with_origins or self._with_edges

    # Before propagation

    def _begin(self, value: Value, sharding: TensorSharding | None, origin: str) -> None:
        owner = shardable_value(value)
        if sharding is None or owner is None:
            return
        for dim in sharding.dims:
            for axis in dim.axes:
                self._origins.setdefault(owner, {}).setdefault(axis, origin)

    def _functions(self) -> Iterator[Operation]:
        for op in self._module.body():
            if op.name == "func.func" and op.regions[0].blocks:
                yield op

    def _find_constraints(self) -> None:
        number = 0
        for op in list(self._module.walk(post_order=True)):
            if op.name == "sdy.sharding_constraint":
                origin = f"constraint_{number}"
                self._begin(op.results[0], get_sharding(op.results[0]), origin)
                op.attributes[SHARDING_ORIGIN_NAME] = StringAttr(origin)
                self._begin(op.operands[0], get_sharding(op.operands[0]), origin)
                number += 1

    def _find_manual_computations(self) -> None:
        number = 0
        for op in list(self._module.walk(post_order=True)):
            if op.name != "sdy.manual_computation":
                continue
            for index, argument in enumerate(op.body().arguments):
                edge = edge_of_target(argument)
                if edge is not None:
                    origin = f"mc_{number}_input: {index}"
                    self._begin(edge.results[0], _held(op, "in_shardings", index), origin)
                    source = edge_op_sources(edge)[0]
                    self._begin(source, get_sharding(source), origin)
            for index, result in enumerate(op.results):
                edge = edge_of_target(result)
                if edge is not None:
                    origin = f"mc_{number}_output: {index}"
                    self._begin(edge.results[0], _held(op, "out_shardings", index), origin)
            op.attributes[SHARDING_ORIGIN_NAME] = StringAttr(f"mc_{number}")
            number += 1

    def _find_functions(self) -> None:
        for function in self._functions():
            block = function.body()
            for index, argument in enumerate(block.arguments):
                self._begin(argument, get_sharding(argument), f"input: {index}")
            for index, value in enumerate(block.terminator.operands):
                self._begin(value, func_result_sharding(function, index), f"output: {index}")

    # During propagation

    def record_visit(self, visit: Visit) -> None:
        """Follow the axes that a visit moved."""
        outcome = visit.outcome() if visit.changes else None
        if outcome is not None:
            mesh = outcome.context.mesh
            move = Move(visit.rule, outcome.before, outcome.after, mesh)
            self.moved(visit.op, visit.operands, visit.results, move)

    def around(
        self, op: Operation, rule: OpShardingRule | None, change: Callable[[], None]
    ) -> None:
        """Make a change that moves axes between an operation's tensors, and record it.

        Args:
            op: The operation.
            rule: Its rule; without one there is nothing to record.
            change: A function that sets shardings.
        """
        before = self._projected(op, rule) if rule is not None and self.is_enabled else None
        change()
        if rule is None or before is None:
            return
        after = self._projected(op, rule)
        if after is not None and after[0] != before[0]:
            move = Move(rule, before[0], after[0], after[1])
            self.moved(op, op.operands, op.results, move)

    def _projected(self, op: Operation, rule: OpShardingRule) -> tuple[Projection, Mesh] | None:
        operands, results = get_shardings(op.operands), get_shardings(op.results)
        mesh = common_mesh([*operands, *results], op)
        return None if mesh is None else (project(rule, operands, results, mesh), mesh)

    def moved(
        self, op: Operation, operands: Sequence[Value], results: Sequence[Value], move: Move
    ) -> None:
        """Record axes that moved.

        Args:
            op: The operation.
            operands: The operands of the rule.
            results: Its results.
            move: The rule, with the shardings before and after.
        """
        moved = _edges_of_move(move, self._step)
        self._step += 1
        for value, edges in zip((*operands, *results), moved, strict=True):
            for axis, edge in edges.items():
                if self._with_edges:
                    # A function has one tensor at a time, so all edges are kept
                    # with its first result.
                    self._edges.setdefault(op, {}).setdefault(axis, []).append(edge)
                if self._with_origins:
                    side = operands if edge.source.type is EdgeNodeType.OPERAND else results
                    self._inherit(side[edge.source.index], value, axis)

    def _inherit(self, source: Value, target: Value, axis: AxisRef) -> None:
        from_, to = shardable_value(source), shardable_value(target)
        origin = None if from_ is None else self._origin_of(from_, axis)
        if to is not None and origin is not None:
            self._origins.setdefault(to, {}).setdefault(axis, origin)

    def _origin_of(self, value: Value, axis: AxisRef) -> str | None:
        stored = self._origins.get(value, {})
        if axis in stored:
            return stored[axis]
        # The axis may have been split or merged on its way.
        for other, origin in stored.items():
            if contains(other, axis) or contains(axis, other):
                return origin
        return None

    # After propagation

    def save(self) -> None:
        """Save the records as attributes."""
        if self._with_origins:
            for value, origins in self._origins.items():
                self._save_origins(value, origins)
            self._name_own_origins()
        if self._with_edges:
            for op, edges in self._edges.items():
                found = _edges_attribute(edges)
                if op.name == "func.func":
                    set_func_result_attribute(op, 0, PROPAGATION_EDGES, found)
                else:
                    op.attributes[PROPAGATION_EDGES] = found

    def _save_origins(self, value: Value, origins: Mapping[AxisRef, str]) -> None:
        op = owning_op(value)
        entries = DictAttr.of(
            (_axis_text(axis), StringAttr(origin)) for axis, origin in origins.items()
        )
        function = op if op.name == "func.func" else op.ancestor("func.func")
        if function is not None:
            terminator = function.body().terminator
            for user, index in value.uses:
                if user is terminator:
                    set_func_result_attribute(function, index, SHARDING_ORIGINS, entries)
                    break
        if isinstance(value, BlockArgument):
            if op is function:
                set_func_arg_attribute(op, value.index, SHARDING_ORIGINS, entries)
        elif op.name in ("sdy.sharding_constraint", "sdy.data_flow_edge"):
            op.attributes[SHARDING_ORIGINS] = entries
        elif isinstance(value, OpResult):
            stored = op.attributes.get(SHARDING_ORIGINS)
            per_result: list[Attribute] = (
                list(stored.elements)
                if isinstance(stored, ArrayAttr)
                else [DictAttr(())] * len(op.results)
            )
            per_result[value.index] = entries
            op.attributes[SHARDING_ORIGINS] = ArrayAttr(tuple(per_result))

    def _name_own_origins(self) -> None:
        """Replace the name of an origin by a generic one on the origin itself."""
        for op in self._module.walk():
            name = op.attributes.get(SHARDING_ORIGIN_NAME)
            if op.name == "sdy.sharding_constraint" and isinstance(name, StringAttr):
                _rename_on(op, name.value)
            elif op.name == "sdy.manual_computation" and isinstance(name, StringAttr):
                for index, argument in enumerate(op.body().arguments):
                    _rename_on(edge_of_target(argument), f"{name.value}_input: {index}")
                for index, result in enumerate(op.results):
                    _rename_on(edge_of_target(result), f"{name.value}_output: {index}")
        for function in self._functions():
            for index in range(len(function.body().arguments)):
                stored = func_arg_attribute(function, index, SHARDING_ORIGINS)
                if isinstance(stored, DictAttr):
                    new = _renamed(stored, f"input: {index}")
                    set_func_arg_attribute(function, index, SHARDING_ORIGINS, new)
            for index in range(len(function_type(function).results)):
                stored = func_result_attribute(function, index, SHARDING_ORIGINS)
                if isinstance(stored, DictAttr):
                    new = _renamed(stored, f"output: {index}")
                    set_func_result_attribute(function, index, SHARDING_ORIGINS, new)


def _axis_text(axis: AxisRef) -> str:
    """Return an axis as the name of a dictionary entry: without quotation marks."""
    sub = axis.sub_axis
    return axis.name if sub is None else f"{axis.name}:({sub.pre_size}){sub.size}"


def _held(op: Operation, name: str, index: int) -> TensorSharding | None:
    stored = op.properties.get(name)
    return stored.shardings[index] if isinstance(stored, TensorShardingPerValue) else None


def _last_step(module: Operation) -> int:
    last = -1
    for op in module.walk():
        edges = op.attributes.get(PROPAGATION_EDGES)
        if isinstance(edges, PropagationEdges):
            last = max([last, *(step.step_index for step in edges.steps)])
    return last


def _rename_on(op: Operation | None, origin: str) -> None:
    stored = None if op is None else op.attributes.get(SHARDING_ORIGINS)
    if op is not None and isinstance(stored, DictAttr):
        op.attributes[SHARDING_ORIGINS] = _renamed(stored, origin)


def _renamed(stored: DictAttr, origin: str) -> DictAttr:
    own = StringAttr(origin)
    return DictAttr(tuple((key, _SELF if value == own else value) for key, value in stored.entries))


# Edges of a step


def _edges_of_move(move: Move, step: int) -> list[dict[AxisRef, _Edge]]:
    """Return, for each tensor, the axes that came to it, with their edges."""
    count = len(move.rule.operands)
    mappings = move.rule.operands + move.rule.results
    tensors = zip(mappings, move.before.tensors, move.after.tensors, strict=True)
    return [
        _edges_to(_Target(_reference(index, count), *tensor), move, step)
        for index, tensor in enumerate(tensors)
    ]


def _reference(index: int, operand_count: int) -> EdgeValueRef:
    if index < operand_count:
        return EdgeValueRef(EdgeNodeType.OPERAND, index)
    return EdgeValueRef(EdgeNodeType.RESULT, index - operand_count)


@dataclass(frozen=True, slots=True)
class _Target:
    reference: EdgeValueRef
    mapping: TensorMapping
    old: TensorFactors
    new: TensorFactors


def _edges_to(target: _Target, move: Move, step: int) -> dict[AxisRef, _Edge]:
    moved: dict[AxisRef, _Edge] = {}
    for dim in target.mapping.dims:
        previous: AxisRef | None = None
        for factor in dim.factors:
            if factor not in target.old.factors:
                continue
            old, new = target.old.factors[factor].axes, target.new.factors[factor].axes
            if old == new:
                continue
            previous, axes = _merged_at_seam(previous, new, moved, move.mesh)
            source = _source_of(new, factor, move.before)
            if source is not None:
                edge = _Edge(source, target.reference, step)
                if old and old[-1] != axes[len(old) - 1]:
                    moved.setdefault(axes[len(old) - 1], edge)
                for axis in axes[len(old) :]:
                    moved.setdefault(axis, edge)
    return moved


def _merged_at_seam(
    previous: AxisRef | None, axes: Axes, moved: dict[AxisRef, _Edge], mesh: Mesh
) -> tuple[AxisRef, Axes]:
    """Return the axes of a factor, the last one merged with the last one of the factor before."""
    last = axes[-1]
    if previous is not None and can_merge(previous, last):
        moved.pop(previous, None)
        return last, (*axes[:-1], merge(previous, last, mesh))
    return last, axes


def _source_of(axes: Axes, factor: int, before: Projection) -> EdgeValueRef | None:
    """Return the first tensor, operands first, that had the axes."""
    count = len(before.operands)
    for index, tensor in enumerate(before.tensors):
        sharding = tensor.factors.get(factor)
        if sharding is not None and list_prefix(axes, sharding.axes) is not Prefix.NONE:
            return _reference(index, count)
    return None


def _edges_attribute(edges: Mapping[AxisRef, list[_Edge]]) -> PropagationEdges:
    """Return the attribute with all edges of an operation; of equal ones, the first step counts."""
    first: dict[tuple[AxisRef, EdgeValueRef, EdgeValueRef], int] = {}
    for axis, found in edges.items():
        for edge in found:
            key = (axis, edge.source, edge.target)
            first[key] = min(edge.step, first.get(key, edge.step))
    steps: dict[int, dict[tuple[AxisRef, EdgeValueRef], list[EdgeValueRef]]] = {}
    for (axis, source, target), step in first.items():
        steps.setdefault(step, {}).setdefault((axis, source), []).append(target)
    return PropagationEdges(
        tuple(PropagationOneStep(step, _details(steps[step])) for step in sorted(steps))
    )


def _details(
    found: Mapping[tuple[AxisRef, EdgeValueRef], list[EdgeValueRef]],
) -> tuple[AxisToPropagationDetails, ...]:
    def place(reference: EdgeValueRef) -> tuple[bool, int]:
        return (reference.type is EdgeNodeType.RESULT, reference.index)

    details = [
        AxisToPropagationDetails(axis, source, tuple(sorted(targets, key=place)))
        for (axis, source), targets in found.items()
    ]
    return tuple(sorted(details, key=lambda detail: detail.axis.name))
