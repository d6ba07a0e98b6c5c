"""The driver of propagation: visits operations until no visit changes a sharding.

A visit propagates between the tensors of one operation (``steps``). When a value's
sharding changes, all operations affected by it are visited again: the one that
defines it, its users, and, if it is a source of a data-flow edge, the edge; and
all values of its sharding group change with it.

The order of visits decides which of two conflicting shardings arrives first, so
it is Shardy's, that is, the order of MLIR's greedy rewrite driver with these
settings: one iteration, operations first visited in program order, the worklist a
stack, operations queued again on top of it together with those around them.
Operations without uses or effects are erased when they are popped. See
``emu.mlir.transforms.rewriting`` for the rules of the worklist.

For the main function, the returned values are tied to the shardings of its
results before the first visit and after the last one; other functions are
called, and ``sdy.func_data_flow_edge`` ties the call to the function.

Shardy overlooks one kind of edge when it queues, and so does this driver (see
``emu.sdy.dialect.dataflow.edge_owner_from_source``): the edge to an argument of a
computation's body is not queued when the operand changes. The next round finds
the changes missed that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.effects import is_trivially_dead
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.mlir.transforms.rewriting import Rewriter
from emu.sdy.dialect.attributes import (
    OpShardingRule,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.dataflow import (
    DATA_FLOW_OPS,
    When,
    edge_of_source,
    edge_op_non_owner_targets,
    edge_op_sources,
    edge_op_transform,
    manual_axes_of,
    owning_op,
)
from emu.sdy.dialect.functions import (
    callee_name,
    find_function,
    func_result_sharding,
    main_function,
    set_func_result_sharding,
)
from emu.sdy.dialect.names import SHARDING, SHARDING_RULE
from emu.sdy.dialect.ops import allowed_direction
from emu.sdy.dialect.shardings import get_sharding, set_sharding, shardable_value
from emu.sdy.dialect.tensors import static_shape
from emu.sdy.propagation.callers import SymbolUsers
from emu.sdy.propagation.groups import ShardingGroups
from emu.sdy.propagation.priorities import EVERYWHERE, DirectionOf, code
from emu.sdy.propagation.steps import Change, Outcome, Setting, Steps, StrategyName
from emu.sdy.rules import get_or_create, identity_rule, is_elementwise


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of an operation.

    Attributes:
        op: The operation; the function, for its returned values.
        kind: "op", "constraint", "barrier", "data_flow_edge",
            "func_data_flow_edge" or "func_results".
        rule: The rule.
        operands: The values that are operands of the rule.
        results: The values that are its results.
        before: The shardings, operands first, before the visit.
        changes: Changes that the visit made.
        setting: Strategy and options.
        code: Allowed directions (see ``emu.sdy.propagation.priorities``).
        round: User and operation priority.
        steps: The table of steps.
        result_index: Index of the function's result, for "func_results".
    """

    op: Operation
    kind: str
    rule: OpShardingRule
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    before: tuple[TensorSharding | None, ...]
    changes: tuple[Change, ...]
    setting: Setting
    code: int
    round: tuple[int, int]
    steps: Steps
    result_index: int | None = None

    def key(self) -> tuple[int, ...]:
        """Return a key that is equal for visits with equal steps."""
        return self.steps.key(self.setting, self.rule, self.code, self.before)

    def outcome(self) -> Outcome | None:
        """Return the step, computed again; None if there was no common mesh."""
        return self.steps.outcome(self.setting, self.rule, self.code, self.before)


Observer = Callable[[Visit], None]

_Set = Callable[[int, TensorSharding], None]
"""A function that sets the sharding of the tensor with an index."""


@dataclass(slots=True)
class _Tensors:
    """Tensors of a step that are not just the operands and results of an operation."""

    kind: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    shardings: list[TensorSharding | None]
    rule: OpShardingRule
    set: _Set
    result_index: int | None = None


class Driver:
    """Propagation through a module.

    Attributes:
        module: The module.
        table: The module's symbol table.
        groups: The module's sharding groups.
        diagnostics: Receives errors and warnings.
        observers: Called with each visit at which a tensor had a sharding.
        round: User and operation priority of the current fixpoint.
    """

    def __init__(
        self,
        module: Operation,
        groups: ShardingGroups,
        diagnostics: Diagnostics,
        *,
        conservative: bool = False,
    ) -> None:
        self.module = module
        self.table = SymbolTable(module)
        self.groups = groups
        self.observers: list[Observer] = []
        self.round: tuple[int, int] = (0, 0)
        self.steps = Steps(self.table)
        self._conservative = conservative
        self.diagnostics = diagnostics
        self._main = main_function(module, self.table, diagnostics)
        self._users = SymbolUsers({})
        self._without_rule: set[Operation] = set()
        self._elementwise: dict[str, bool] = {}
        self._settings: dict[tuple[bool, bool, bool], Setting] = {}
        self._strategy = StrategyName.AGGRESSIVE
        self._direction_of: DirectionOf
        self._rewriter = Rewriter(module.regions[0])
        self._visited: Operation | None = None
        self._losses: dict[Operation, int] = {}

    def run(self, strategy: StrategyName, direction_of: DirectionOf) -> None:
        """Visit operations until nothing changes any more.

        Args:
            strategy: The strategy along factors.
            direction_of: Allowed directions of each operation.
        """
        self._strategy = strategy
        self._direction_of = direction_of
        self._settings.clear()
        self._users = SymbolUsers.of(self.module, self.table)
        self._propagate_results()
        self._visit_all()
        self._propagate_results()

    # The worklist

    def _visit_all(self) -> None:
        rewriter = self._rewriter
        worklist = rewriter.worklist
        for block in self.module.regions[0].blocks:
            for op in block:
                for inner in op.walk():
                    # Those known from an earlier round as having no rule have nothing to give.
                    if inner not in self._without_rule or inner.name in _EDGES:
                        worklist.push(inner)
        worklist.reverse()
        while worklist:
            op = worklist.pop()
            if is_trivially_dead(op):
                rewriter.erase(op)
            else:
                self._visited = op
                self._visit(op)

    def _queue(self, op: Operation) -> None:
        # Visiting the operation that made the change again would find nothing new.
        if op is not self._visited:
            self._rewriter.enqueue(op)

    def _queue_users(self, value: Value, passed: set[Value] | None = None) -> None:
        """Queue all operations for which a value is a source.

        A function that returns its argument, called twice in a row, leads back to the
        start: ``passed`` holds the values already reached through calls.
        """
        for user, index in value.uses:
            known = definition(user.name)
            if (known.terminator or user.name in DATA_FLOW_OPS) and (
                edge := edge_of_source((user, index))
            ) is not None:
                self._queue(edge)
            elif known.terminator:
                passed = set() if passed is None else passed
                self._queue_after_return(user, index, passed)
            elif user.name == "func.call":
                passed = set() if passed is None else passed
                for block in find_function(self.table, callee_name(user)).regions[0].blocks[:1]:
                    self._queue_users_once(block.arguments[index], passed)
            else:
                self._queue(user)

    def _queue_users_once(self, value: Value, passed: set[Value]) -> None:
        if value not in passed:
            passed.add(value)
            self._queue_users(value, passed)

    def _queue_after_return(self, terminator: Operation, index: int, passed: set[Value]) -> None:
        parent = terminator.parent_op
        if parent is None:
            return
        users = self._users.of_function(parent) if terminator.name == "func.return" else []
        if not users:
            self._queue(parent)
        for user in users:
            if user.name == "func.call":
                self._queue_users_once(user.results[index], passed)

    def _queue_related(self, value: Value) -> None:
        """Queue all operations that a value is related to."""
        op = value.defining_op
        if op is None:
            self._queue(owning_op(value))
        else:
            if op.name == "sdy.data_flow_edge":
                for target in edge_op_non_owner_targets(op):
                    self._queue_users(target)
            self._queue(op)
        self._queue_users(value)

    def _changed(self, value: Value, sharding: TensorSharding) -> None:
        """Queue the operations affected by a value's new sharding, and change its group."""
        shardable = shardable_value(value)
        if shardable is None:
            return
        self._queue_related(shardable)
        for member in self._change_group(shardable, sharding):
            self._queue_related(member)

    def _change_group(self, shardable: Value, sharding: TensorSharding) -> Iterator[Value]:
        """Change the other members of a value's group, and yield each of them."""
        for member in self.groups.members(shardable):
            if member is not shardable:
                set_sharding(member, sharding)
                yield member

    # Visits

    def _visit(self, op: Operation) -> None:
        name = op.name
        if name == "sdy.data_flow_edge":
            done = self._visit_edge(op)
        elif name == "sdy.func_data_flow_edge":
            done = self._visit_func_edge(op)
        elif name == "sdy.propagation_barrier":
            done = self._visit_barrier(op)
        else:
            done = False
        if not done:
            self._visit_registered(op)

    def _rule(self, op: Operation) -> OpShardingRule | None:
        rule = op.attributes.get(SHARDING_RULE)
        if isinstance(rule, OpShardingRule):
            return rule
        if op in self._without_rule:
            return None
        rule = get_or_create(op, conservative=self._conservative, diagnostics=self.diagnostics)
        if rule is None:
            self._without_rule.add(op)
        return rule

    def _is_elementwise(self, op: Operation) -> bool:
        # The name decides, except for a bitcast.
        known = self._elementwise.get(op.name)
        if known is None:
            known = is_elementwise(op)
            if op.name != "stablehlo.bitcast_convert":
                self._elementwise[op.name] = known
        return known

    def _setting(self, *, conservative: bool, elementwise: bool, has_kinds: bool) -> Setting:
        key = (conservative, elementwise, has_kinds)
        setting = self._settings.get(key)
        if setting is None:
            setting = self._settings[key] = Setting(self._strategy, *key)
        return setting

    def _visit_registered(self, op: Operation) -> None:
        rule = self._rule(op)
        if rule is None:
            return
        operands = op.operands
        shardings = [_sharding(value) for value in operands]
        shardings += [_sharding(result) for result in op.results]
        if not any(shardings):
            return
        elementwise = self._is_elementwise(op)
        setting = self._setting(
            conservative=self._conservative, elementwise=elementwise, has_kinds=True
        )
        direction_code = self._direction_of(op, elementwise)
        changes = self.steps.changes(setting, rule, direction_code, shardings)
        count = len(operands)
        for index, sharding in changes:
            value = operands[index] if index < count else op.results[index - count]
            set_sharding(value, sharding)
            self._changed(value, sharding)
        if self.observers:
            kind = "constraint" if op.name == "sdy.sharding_constraint" else "op"
            results = tuple(op.results)
            visit = Visit(
                op, kind, rule, operands, results, tuple(shardings), changes, setting,
                direction_code, self.round, self.steps,
            )  # fmt: skip
            for observer in self.observers:
                observer(visit)

    def _step(
        self, op: Operation, tensors: _Tensors, direction_code: int, elementwise: bool
    ) -> bool:
        """Take a step between tensors that are not, or not only, an operation's own."""
        if not any(tensors.shardings):
            return False
        setting = self._setting(conservative=False, elementwise=elementwise, has_kinds=False)
        values = tensors.operands + tensors.results
        changes = self.steps.changes(setting, tensors.rule, direction_code, tensors.shardings)
        for index, sharding in changes:
            tensors.set(index, sharding)
            if tensors.kind != "func_results":
                self._changed(values[index], sharding)
        if self.observers:
            visit = Visit(
                op, tensors.kind, tensors.rule, tensors.operands, tensors.results,
                tuple(tensors.shardings), changes, setting, direction_code, self.round,
                self.steps, tensors.result_index,
            )  # fmt: skip
            for observer in self.observers:
                observer(visit)
        return bool(changes)

    def _visit_edge(self, op: Operation) -> bool:
        shape = static_shape(op.results[0].type)
        if shape is None:
            return False
        sources = tuple(edge_op_sources(op))
        kept = _sharding(op.results[0])
        seen = kept and edge_op_transform(op, kept, When.BEFORE_EDGE_PROPAGATION)

        def set_tensor(index: int, sharding: TensorSharding) -> None:
            if index < len(sources):
                set_sharding(sources[index], sharding)
            else:
                new = edge_op_transform(op, sharding, When.AFTER_EDGE_PROPAGATION)
                if kept is not None and _axis_count(new) < _axis_count(kept):
                    self._lost_axes(op)
                op.properties["sharding"] = new

        tensors = _Tensors(
            "data_flow_edge",
            sources,
            (op.results[0],),
            [*map(get_sharding, sources), seen],
            identity_rule(shape, len(sources)),
            set_tensor,
        )
        return self._step(op, tensors, self._direction_of(op, False), False)

    def _lost_axes(self, edge: Operation) -> None:
        """Count an edge's loss of axes, and raise PassFailed if that keeps happening.

        Axes are only ever added, except where a manual axis arrives after free ones:
        Shardy then loops for ever.
        """
        self._losses[edge] = self._losses.get(edge, 0) + 1
        if self._losses[edge] > _MOST_LOSSES:
            manual = ", ".join(f'"{name}"' for name in manual_axes_of(owning_op(edge.operands[0])))
            message = (
                f"propagation does not end here: manual axes ({manual}) come in from outside "
                "behind free ones; run sdy-manual-axes-cleanup before"
            )
            self.diagnostics.error(edge.location, message)
            raise PassFailed(message)

    def _visit_func_edge(self, op: Operation) -> bool:
        shape = static_shape(op.results[0].type)
        if shape is None:
            return False
        sources = tuple(self._func_edge_sources(op.operands[0]))
        if not sources:
            return True
        return self._step(
            op,
            _own_tensors("func_data_flow_edge", sources, op.results[0], shape),
            self._direction_of(op, False),
            False,
        )

    def _func_edge_sources(self, value: Value) -> list[Value]:
        """Return the values passed to an argument of a function, or returned to a call."""
        if isinstance(value, BlockArgument):
            users = self._users.of_function(owning_op(value))
            return [user.operands[value.index] for user in users if user.name == "func.call"]
        if not isinstance(value, OpResult):
            return []
        terminator = find_function(self.table, callee_name(value.owner)).body().terminator
        return [terminator.operands[value.index]] if terminator.name == "func.return" else []

    def _visit_barrier(self, op: Operation) -> bool:
        shape = static_shape(op.results[0].type)
        if shape is None:
            return False
        allowed = allowed_direction(op)
        tensors = _own_tensors("barrier", op.operands, op.results[0], shape)
        return self._step(op, tensors, code(allowed, allowed), True)

    def _propagate_results(self) -> None:
        """Propagate between the main function's returned values and its result shardings."""
        self._visited = None
        function = self._main
        blocks = function.regions[0].blocks
        for index, value in enumerate(blocks[0].terminator.operands if blocks else ()):
            shape = static_shape(value.type)
            if shape is None:
                continue

            def set_tensor(
                tensor: int, sharding: TensorSharding, value: Value = value, index: int = index
            ) -> None:
                if tensor == 1:
                    set_func_result_sharding(function, index, sharding)
                    return
                set_sharding(value, sharding)
                shardable = shardable_value(value)
                if shardable is not None:
                    list(self._change_group(shardable, sharding))

            tensors = _Tensors(
                "func_results",
                (value,),
                (value,),
                [get_sharding(value), func_result_sharding(function, index)],
                identity_rule(shape, 1),
                set_tensor,
                index,
            )
            self._step(function, tensors, EVERYWHERE, False)


_MOST_LOSSES = 100
_EDGES = frozenset({"sdy.data_flow_edge", "sdy.func_data_flow_edge", "sdy.propagation_barrier"})


def _axis_count(sharding: TensorSharding) -> int:
    return sum(len(dim.axes) for dim in sharding.dims)


def _own_tensors(
    kind: str, operands: Sequence[Value], result: Value, shape: tuple[int, ...]
) -> _Tensors:
    """Return tensors of values that store their own shardings, tied by an identity rule."""
    values = (*operands, result)
    return _Tensors(
        kind,
        tuple(operands),
        (result,),
        [get_sharding(value) for value in values],
        identity_rule(shape, len(operands)),
        lambda index, sharding: set_sharding(values[index], sharding),
    )


def _sharding(value: Value) -> TensorSharding | None:
    """Return ``get_sharding(value)``, with a fast path for results of ordinary operations."""
    if isinstance(value, OpResult):
        owner = value.owner
        stored = owner.attributes.get(SHARDING)
        name = owner.name
        if (
            isinstance(stored, TensorShardingPerValue)
            and name not in DATA_FLOW_OPS
            and not name.startswith("sdy.")
        ):
            return stored.shardings[value.index]
    return get_sharding(value)
