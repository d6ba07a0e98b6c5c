"""Telling a listener what propagation does, with the reasons of what it does not."""

from __future__ import annotations

from collections.abc import Iterable

from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.mlir.ir import Operation, Value
from emu.sdy.passes.walker import FunctionResult, Place, walk_shardings
from emu.sdy.propagation.cuts import explain
from emu.sdy.propagation.driver import Visit
from emu.sdy.propagation.events import Cut, Listener, SeedEvent, StepEvent
from emu.sdy.propagation.priorities import directions
from emu.sdy.propagation.projection import project

__all__ = ["Teller"]


class Teller:
    """Turns visits into events."""

    def __init__(self, module: Operation, listener: Listener) -> None:
        self._module = module
        self._listener = listener
        self._known: dict[tuple[int, ...], tuple[Cut, ...]] = {}

    def tell_initial(self, grouped: Iterable[tuple[int, Value, TensorSharding]]) -> None:
        """Tell what is sharded before propagation.

        Args:
            grouped: Group, member and sharding of what groups have brought.
        """
        causes = {value: f"group {group}" for group, value, _ in grouped}

        def tell(sharding: TensorSharding, place: Place) -> None:
            value = place if isinstance(place, Value) else None
            self._tell_seed(place, sharding, causes.get(value, "given") if value else "given")

        walk_shardings(self._module, tell)

    def tell_restored(self, priority: int, places: Iterable[tuple[Place, TensorSharding]]) -> None:
        """Tell that dimensions of a user priority came back.

        Args:
            priority: The priority.
            places: Where, and what is there now.
        """
        for place, sharding in places:
            self._tell_seed(place, sharding, f"priority {priority}")

    def _tell_seed(self, place: Place, sharding: TensorSharding, cause: str) -> None:
        if isinstance(place, Value):
            self._listener.seed(SeedEvent(place, sharding, cause))
        elif isinstance(place, FunctionResult):
            for block in place.function.regions[0].blocks[:1]:
                value = block.terminator.operands[place.index]
                self._listener.seed(SeedEvent(value, sharding, cause, place.index))

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
