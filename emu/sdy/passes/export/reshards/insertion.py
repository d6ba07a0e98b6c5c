"""``sdy-insert-explicit-reshards``: inserts reshards where shardings disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.ir import Operation, Use, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import AxisRef, Mesh, OpShardingRule, TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.dataflow import (
    When,
    body_terminator,
    edge_owner_sharding,
    edge_owners,
    edge_sources,
    is_data_flow_op,
    transform_target_sharding,
)
from emu.sdy.dialect.functions import (
    callee_name,
    find_function,
    func_arg_shardings,
    func_result_sharding,
)
from emu.sdy.dialect.meshes import common_mesh_or_name, first_mesh_or_name, get_mesh
from emu.sdy.dialect.names import COLLECTIVES
from emu.sdy.dialect.shardings import (
    fully_closed_like,
    get_or_create_sharding,
    get_sharding,
    get_shardings,
    set_sharding,
    sharding_bypassing_barriers,
)
from emu.sdy.dialect.tensors import is_equivalent, static_shape
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.export.reshards.common_axes import (
    common_axes,
    compatible_axes,
    compatible_axes_of_factor,
)
from emu.sdy.passes.export.reshards.single_device import SingleDevices
from emu.sdy.passes.export.reshards.special import axes_of_reshape, reshard_dot_result
from emu.sdy.passes.export.reshards.unreduced import Reducer, reduce_results
from emu.sdy.passes.insertion_point import Place, location_of, replace_other_uses
from emu.sdy.propagation.projection import Axes, Projection, project
from emu.sdy.rules import get_or_create

_DOTS = frozenset({"stablehlo.dot", "stablehlo.dot_general"})


class InsertExplicitReshards(FunctionPass, name="sdy-insert-explicit-reshards"):
    """Insert reshards so that each operation's tensors are sharded compatibly.

    Operations on one device get whole operands, and give whole results to the others.
    For the others, compatible means that the operation works on shards; it may still have to reduce
    partial sums (for which all-reduces are inserted too) or exchange borders.

    Attributes:
        enable_full_version: Whether to do so for all operations. Otherwise it is done
            for calls, for ragged dots, and for concatenations whose operands and
            result differ; results of dots are resharded where that is better than
            resharding an operand; and partial sums are reduced where shardings
            mention them.
    """

    enable_full_version: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Visit inner operations before outer ones, and returned values last."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        inserter = _Inserter(module, session, full=self.enable_full_version)
        inserter.single_devices.check_function(op)
        for each in op.walk(post_order=True):
            if each is not op:
                inserter.visit(each)
        if op.regions[0].blocks:
            inserter.visit_returned(op)


class _Inserter:
    def __init__(self, module: Operation, session: Session, *, full: bool) -> None:
        table = SymbolTable(module)
        self._table = table
        self._session = session
        self._full = full
        self._reducer = Reducer(table, session)
        self.single_devices = SingleDevices(module, table, session)

    # Kinds of operations

    def visit(self, op: Operation) -> None:
        """Insert the reshards for one operation."""
        if definition(op.name).terminator:
            return
        if is_data_flow_op(op):
            self._visit_data_flow(op)
        elif op.name == "func.call":
            self._visit_call(op)
        elif op.name != "sdy.reshard" or not self._reducer.convert_reshard(op):
            full = self._full or _is_always_full(op)  # depends on shardings before the reduction
            # A collective says itself what becomes of partial sums: this pass may have made it before.
            if op.name not in COLLECTIVES:
                self._reducer.add_up_operands(op)
            if not self.single_devices.visit(op):
                self._visit_with_rule(op, full=full)

    def visit_returned(self, func: Operation) -> None:
        """Reshard returned values to the shardings of the function's results."""
        terminator = body_terminator(func)
        place = Place.before(terminator)
        for index, value in enumerate(terminator.operands):
            target = func_result_sharding(func, index)
            self._bring_to((terminator, index), value, target, place, full=self._full)

    def _visit_data_flow(self, op: Operation) -> None:
        arguments, results = edge_owners(op)
        operands: dict[Operation, tuple[Value, ...]] = {}
        for owner in (*results, *arguments):
            target = edge_owner_sharding(op, owner)
            if target is not None:
                target = transform_target_sharding(op, owner, target, When.BEFORE_EDGE_PROPAGATION)
            for use in edge_sources(op, owner):
                user, index = use
                if user not in operands:
                    operands[user] = user.operands
                value = operands[user][index]
                place = Place.after_value(value)
                self._bring_to(use, value, target, place, full=self._full)

    def _visit_call(self, op: Operation) -> None:
        # Also without the full version, because several calls share one function.
        func = find_function(self._table, callee_name(op))
        wanted = func_arg_shardings(func, self._table)
        if wanted is None:
            mesh = first_mesh_or_name(map(get_sharding, op.operands), self._table)
            if mesh is None:
                return
            wanted = fully_closed_like(op.operands, mesh)
        for index, (value, target) in enumerate(zip(op.operands, wanted.shardings, strict=True)):
            self._bring_to((op, index), value, target, Place.after_value(value), full=True)

    def _bring_to(
        self,
        use: Use,
        value: Value,
        target: TensorSharding | None,
        place: Place,
        *,
        full: bool,
    ) -> None:
        """Reshard an operand to the sharding of the other end of an edge."""
        value = self._reducer.add_up(use, value, target, place)
        value = self._reducer.make_unreduced(use, value, target, place)
        source = get_sharding(value)
        if full and not _equivalent(source, target):
            if target is None and source is not None:
                target = TensorSharding.fully_closed(source.rank, source.mesh)
            assert target is not None  # two missing shardings are equivalent
            user, index = use
            added = make_reshard(value, target, location_of(value))
            user.set_operand(index, place.insert(added).result)

    # Operations with a rule

    def _visit_with_rule(self, op: Operation, *, full: bool) -> None:
        rule = get_or_create(op, set_on_op=False, diagnostics=self._session.diagnostics)
        if rule is None or rule.is_custom:
            return
        if not full and op.name not in _DOTS and not _is_unreduced(op):
            return
        ins = [sharding_bypassing_barriers(value) for value in op.operands]
        outs = [sharding_bypassing_barriers(value) for value in op.results]
        found = self._mesh(op, ins, outs)
        if found is None:
            return
        mesh_name, mesh = found
        projection = project(rule, ins, outs, mesh, closed_if_missing=True)
        rewrite = Rewrite(op, rule, projection, mesh_name, mesh, self._table)
        if full:
            common = rewrite.reshard(ins, outs)
            reduction = [axis for factor in rule.reduction for axis in common[factor]]
        else:
            if op.name in _DOTS and outs[0] is not None:
                reshard_dot_result(op, projection, outs[0], rule, mesh_name, mesh)
            reduction = self._unreduced_reduction(op, rule, projection)
        if reduction and op.results:
            reduce_results(op, reduction, mesh_name, mesh)

    def _unreduced_reduction(
        self, op: Operation, rule: OpShardingRule, projection: Projection
    ) -> list[AxisRef]:
        """Return the axes of reduction factors if a result is unreduced, else none."""
        axes: list[AxisRef] = []
        if _is_unreduced(op):
            for factor in rule.reduction:
                of_factor = compatible_axes_of_factor(projection, factor)
                if of_factor is None:
                    raise self._reducer.fail(
                        op,
                        "the result has unreduced axes while the operand has "
                        "incompatible sharding along reduction factors.",
                    )
                axes += of_factor
        return axes

    def _mesh(
        self,
        op: Operation,
        ins: Sequence[TensorSharding | None],
        outs: Sequence[TensorSharding | None],
    ) -> tuple[str, Mesh] | None:
        """Return the mesh of most of the tensors; None if they have no common mesh.

        Meshes that differ only in the order of devices count as common.
        """
        shardings = [sharding for sharding in (*ins, *outs) if sharding is not None]
        default = common_mesh_or_name(shardings, self._table, ignore_device_ids=True)
        if default is None:
            return None
        if isinstance(default, Mesh) or any(isinstance(s.mesh, Mesh) for s in shardings):
            raise self._reducer.fail(
                op, "a sharding has its mesh inlined: run sdy-lift-inlined-meshes first"
            )
        mesh = get_mesh(self._table, default)
        if mesh.is_maximal:
            return None
        counts: dict[str, int] = {}
        best, best_count = default, 0
        for sharding in shardings:
            if not sharding.is_fully_replicated:
                name = sharding.mesh_name
                counts[name] = count = counts.get(name, 0) + 1
                if count > best_count:
                    best, best_count = name, count
        return best, mesh if best == default else get_mesh(self._table, best)


def _equivalent(sharding: TensorSharding | None, other: TensorSharding | None) -> bool:
    if sharding is None:
        return other is None or other.is_fully_replicated
    return is_equivalent(sharding, other)


def _is_unreduced(op: Operation) -> bool:
    if not op.results:
        return False
    sharding = get_sharding(op.results[0])
    return sharding is not None and bool(sharding.unreduced_axes)


def _is_always_full(op: Operation) -> bool:
    if op.name == "mhlo.ragged_dot":
        return True
    if op.name != "stablehlo.concatenate":
        return False
    # If all are alike, but sharded along the concatenated dimension, reshards
    # would be needed too; they are left to the compiler.
    result = get_sharding(op.results[0])
    return any(get_sharding(value) != result for value in op.operands)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Reshards around one operation."""

    op: Operation
    rule: OpShardingRule
    projection: Projection
    mesh_name: str
    mesh: Mesh
    table: SymbolTable

    def reshard(
        self, ins: Sequence[TensorSharding | None], outs: Sequence[TensorSharding | None]
    ) -> list[Axes]:
        """Make operands and results agree, and return the axes of each factor."""
        projection = self.projection
        overflow = [tensor.has_overflow for tensor in projection.tensors]
        if any(overflow) and self.op.name == "stablehlo.reshape":
            return self._reshard_reshape(outs)
        changed = overflow
        common = compatible_axes(projection, self.rule)
        if common is None or any(overflow):
            sizes = [_elements(value) for value in (*self.op.operands, *self.op.results)]
            common = common_axes(projection, self.rule, sizes, self.mesh)
            for factor, axes in enumerate(common):
                updated = projection.update(factor, axes)
                changed = [a or b for a, b in zip(changed, updated, strict=True)]
        self.insert(ins, outs, changed)
        return common

    def _reshard_reshape(self, outs: Sequence[TensorSharding | None]) -> list[Axes]:
        chosen = axes_of_reshape(self.projection, self.rule, self.mesh_name, self.mesh)
        operand = self.op.operands[0]
        changed = [
            not _equivalent(get_sharding(operand), chosen.operand),
            not _equivalent(chosen.result, outs[0]),
        ]
        self.insert(get_shardings([operand]), outs, changed)
        return chosen.common

    def insert(
        self,
        ins: Sequence[TensorSharding | None],
        outs: Sequence[TensorSharding | None],
        changed: Sequence[bool],
    ) -> None:
        """Reshard the tensors that changed or whose mesh orders devices differently."""
        op, sizes = self.op, self.rule.factor_sizes
        place = Place.before(op)
        for index, sharding in enumerate(ins):
            if changed[index] or self._orders_devices_otherwise(sharding):
                tensor, mapping = self.projection.operands[index], self.rule.operands[index]
                new = tensor.sharding(mapping, sizes, self.mesh_name, self.mesh)
                op.set_operand(index, place.insert(_reshard(op.operands[index], new)).result)
        place = Place.after(op)
        for index, sharding in enumerate(outs):
            if changed[len(ins) + index] or self._orders_devices_otherwise(sharding):
                tensor, mapping = self.projection.results[index], self.rule.results[index]
                new = tensor.sharding(mapping, sizes, self.mesh_name, self.mesh)
                result = op.results[index]
                old = get_or_create_sharding(result, self.mesh_name, closed_if_missing=True)
                added = _reshard(result, old)
                place.insert(added)
                replace_other_uses(result, added.result)
                set_sharding(result, new)

    def _orders_devices_otherwise(self, sharding: TensorSharding | None) -> bool:
        if sharding is None or sharding.mesh == self.mesh_name or sharding.is_fully_replicated:
            return False
        return get_mesh(self.table, sharding.mesh).device_ids != self.mesh.device_ids


def _reshard(value: Value, sharding: TensorSharding) -> Operation:
    return make_reshard(value, sharding, location_of(value))


def _elements(value: Value) -> int:
    """Return the number of elements; 0 if it is unknown."""
    shape = static_shape(value.type)
    return 0 if shape is None else math.prod(shape)
