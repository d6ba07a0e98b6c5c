"""Telling a listener what propagation does, with the reasons of what it does not."""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.dataflow import edge_of_target, edge_op_non_owner_targets
from emu.sdy.dialect.shardings import get_sharding, shardable_value
from emu.sdy.dialect.walker import FunctionResult, Place, walk_shardings
from emu.sdy.propagation.conflicts import explain
from emu.sdy.propagation.driver import Visit
from emu.sdy.propagation.events import Cut, Listener, SeedEvent, StepEvent
from emu.sdy.propagation.groups import Grouped, ShardingGroups
from emu.sdy.propagation.priorities import directions
from emu.sdy.propagation.projection import project

__all__ = ["Teller"]


class Teller:
    """Turns visits into events."""

    def __init__(self, module: Operation, groups: ShardingGroups, listener: Listener) -> None:
        self._module = module
        self._groups = groups
        self._listener = listener
        self._known: dict[tuple[int, ...], tuple[Cut, ...]] = {}

    def tell_initial(self, grouped: Iterable[Grouped]) -> None:
        """Tell what is sharded before propagation.

        Args:
            grouped: What sharding groups have brought already.
        """
        from_groups = {each.member: each for each in grouped}

        def tell(sharding: TensorSharding, place: Place) -> None:
            if not isinstance(place, Value):
                self._tell_place(place, sharding, "given")
                return
            # What an edge keeps holds for all its targets, whatever they say.
            if place not in from_groups and edge_of_target(place) is None:
                for value in (place, *_targets(place)):
                    self._tell_place(value, get_sharding(value) or sharding, "given")

        walk_shardings(self._module, tell)
        for each in from_groups.values():
            event = SeedEvent(each.member, each.sharding, f"group {each.group}", each.source)
            self._listener.seed(event)

    def tell_restored(self, priority: int, places: Iterable[tuple[Place, TensorSharding]]) -> None:
        """Tell that it is a user priority's turn, and its dimensions came back.

        Args:
            priority: The priority; with 0, those of other priorities went.
            places: Where, and what is there now.
        """
        for place, sharding in places:
            self._tell_place(place, sharding, f"priority {priority}")
            for value in _targets(place) if isinstance(place, Value) else ():
                self._tell_place(value, get_sharding(value) or sharding, f"priority {priority}")

    def _tell_place(self, place: Place, sharding: TensorSharding, cause: str) -> None:
        if isinstance(place, Value):
            self._listener.seed(SeedEvent(place, sharding, cause))
        elif isinstance(place, FunctionResult):
            for block in place.function.regions[0].blocks[:1]:
                value = block.terminator.operands[place.index]
                self._listener.seed(SeedEvent(value, sharding, cause, None, place.index))

    def visited(self, visit: Visit) -> None:
        """Tell of a visit, if anything changed or was cut."""
        key = visit.key()
        cuts = self._known.get(key)
        if cuts is None:
            cuts = self._known[key] = _cuts(visit)
        if not cuts and not visit.changes:
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
                cuts,
                visit.round,
                visit.result_index,
            )
        )

        values = visit.operands + visit.results
        for index, sharding in visit.changes:
            if visit.result_index is None or index == 0:
                self._tell_alike(values[index], sharding)

    def _tell_alike(self, value: Value, sharding: TensorSharding) -> None:
        """Tell of the values that changed with one that a step changed."""
        holder = shardable_value(value)
        kept = get_sharding(value)
        if holder is None or kept is None:
            return
        told = {value}
        if kept != sharding:
            self._listener.seed(SeedEvent(value, kept, "manual axes", value))
        group = self._groups.group_of(holder)
        for member in (holder, *self._groups.members(holder)):
            for each in (member, *_targets(member)):
                kept = get_sharding(each)
                if each not in told and kept is not None:
                    told.add(each)
                    of_group = member is not holder and each is member
                    cause = f"group {group}" if of_group else "data-flow edge"
                    source = value if of_group or member is holder else member
                    self._listener.seed(SeedEvent(each, kept, cause, source))


def _targets(holder: Value) -> list[Value]:
    """The targets of the data-flow edge that keeps its sharding in this value."""
    op = holder.defining_op
    if op is None or op.name != "sdy.data_flow_edge":
        return []
    return [op.operands[0], *edge_op_non_owner_targets(op)]


def _cuts(visit: Visit) -> tuple[Cut, ...]:
    outcome = visit.outcome()
    if outcome is None:
        return ()
    after = list(visit.before)
    for index, sharding in outcome.changes:
        after[index] = sharding
    count = len(visit.operands)
    written = project(visit.rule, after[:count], after[count:], outcome.context.mesh)
    return explain(visit.setting.strategy.function, visit.rule, outcome, written)
