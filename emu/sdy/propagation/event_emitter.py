"""Conversion of propagation's visits to events, with the reasons of conflicts."""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.dataflow import edge_of_target, edge_op_non_owner_targets
from emu.sdy.dialect.shardings import get_sharding, shardable_value
from emu.sdy.dialect.walker import FunctionResult, Place, walk_shardings
from emu.sdy.propagation.conflicts import find_conflicts
from emu.sdy.propagation.driver import Visit
from emu.sdy.propagation.events import Conflict, Listener, SeedEvent, StepEvent
from emu.sdy.propagation.groups import Grouped, ShardingGroups
from emu.sdy.propagation.priorities import directions
from emu.sdy.propagation.projection import project


class EventEmitter:
    """An observer of the driver that turns visits into events.

    Conflicts depend on the visit's key (rule, shardings, directions) alone, so
    they are worked out once per key.
    """

    def __init__(self, module: Operation, groups: ShardingGroups, listener: Listener) -> None:
        self._module = module
        self._groups = groups
        self._listener = listener
        self._known: dict[tuple[int, ...], tuple[Conflict, ...]] = {}

    def emit_initial(self, grouped: Iterable[Grouped]) -> None:
        """Report the shardings that are there before propagation.

        Args:
            grouped: Shardings that sharding groups have brought already.
        """
        from_groups = {each.member: each for each in grouped}

        def emit(sharding: TensorSharding, place: Place) -> None:
            if not isinstance(place, Value):
                self._emit_at(place, sharding, "given")
                return
            # The sharding of an edge holds for all its targets, whatever theirs says.
            if place not in from_groups and edge_of_target(place) is None:
                for value in (place, *_targets(place)):
                    self._emit_at(value, get_sharding(value) or sharding, "given")

        walk_shardings(self._module, emit)
        for each in from_groups.values():
            event = SeedEvent(each.member, each.sharding, f"group {each.group}", each.source)
            self._listener.seed(event)

    def emit_restored(self, priority: int, places: Iterable[tuple[Place, TensorSharding]]) -> None:
        """Report that a user priority's turn begins and its dimensions are back.

        Args:
            priority: The priority; at 0, dimensions of other priorities were removed.
            places: The places that changed, with their shardings now.
        """
        for place, sharding in places:
            self._emit_at(place, sharding, f"priority {priority}")
            for value in _targets(place) if isinstance(place, Value) else ():
                self._emit_at(value, get_sharding(value) or sharding, f"priority {priority}")

    def _emit_at(self, place: Place, sharding: TensorSharding, cause: str) -> None:
        if isinstance(place, Value):
            self._listener.seed(SeedEvent(place, sharding, cause))
        elif isinstance(place, FunctionResult):
            for block in place.function.regions[0].blocks[:1]:
                value = block.terminator.operands[place.index]
                self._listener.seed(SeedEvent(value, sharding, cause, None, place.index))

    def emit_visit(self, visit: Visit) -> None:
        """Report a visit if it changed a sharding or met a conflict."""
        key = visit.key()
        conflicts = self._known.get(key)
        if conflicts is None:
            conflicts = self._known[key] = _conflicts(visit)
        if not conflicts and not visit.changes:
            return
        after = list(visit.before)
        for index, sharding in visit.changes:
            after[index] = sharding
        self._listener.step(
            StepEvent(
                visit.op,
                visit.kind,
                visit.rule,
                visit.operands,
                visit.results,
                visit.before,
                tuple(after),
                directions(visit.code, visit.rule, has_kinds=visit.setting.has_kinds),
                conflicts,
                visit.round,
                visit.result_index,
            )
        )

        values = visit.operands + visit.results
        for index, sharding in visit.changes:
            if visit.result_index is None or index == 0:
                self._emit_followers(values[index], sharding)

    def _emit_followers(self, value: Value, sharding: TensorSharding) -> None:
        """Report the values that changed together with one that a step changed."""
        owner = shardable_value(value)
        kept = get_sharding(value)
        if owner is None or kept is None:
            return
        reported = {value}
        if kept != sharding:
            self._listener.seed(SeedEvent(value, kept, "manual axes", value))
        group = self._groups.group_of(owner)
        for member in (owner, *self._groups.members(owner)):
            for each in (member, *_targets(member)):
                kept = get_sharding(each)
                if each not in reported and kept is not None:
                    reported.add(each)
                    of_group = member is not owner and each is member
                    cause = f"group {group}" if of_group else "data-flow edge"
                    source = value if of_group or member is owner else member
                    self._listener.seed(SeedEvent(each, kept, cause, source))


def _targets(owner: Value) -> list[Value]:
    """Return the targets of the data-flow edge that keeps its sharding in this value."""
    op = owner.defining_op
    if op is None or op.name != "sdy.data_flow_edge":
        return []
    return [op.operands[0], *edge_op_non_owner_targets(op)]


def _conflicts(visit: Visit) -> tuple[Conflict, ...]:
    outcome = visit.outcome()
    if outcome is None:
        return ()
    after = list(visit.before)
    for index, sharding in outcome.changes:
        after[index] = sharding
    count = len(visit.operands)
    written = project(visit.rule, after[:count], after[count:], outcome.context.mesh)
    return find_conflicts(visit.setting.strategy.function, visit.rule, outcome, written)
