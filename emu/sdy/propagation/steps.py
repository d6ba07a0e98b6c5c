"""Memoized steps of propagation.

A step depends on nothing but the rule, the shardings of the tensors, the allowed
directions and the strategy. All of these are plain values, and a model needs the
same few steps over and over: each layer is like the one before, and each round
visits all operations again. So a step is computed once and looked up afterwards.

The keys of that table consist of small integers, since hashing a sharding means
hashing every axis in it. ``Steps`` numbers the shardings and rules that it sees;
an object seen before is recognised by its identity, without reading its contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import (
    Mesh,
    OpShardingRule,
    SdyAttribute,
    TensorSharding,
)
from emu.sdy.dialect.meshes import common_mesh_or_name, get_mesh
from emu.sdy.propagation.aggressive import propagate_aggressive
from emu.sdy.propagation.basic import StepContext, Strategy, propagate_basic
from emu.sdy.propagation.priorities import directions
from emu.sdy.propagation.projection import Projection, project

Change = tuple[int, TensorSharding]
"""Index of a tensor (operands first) and its new sharding."""


class StrategyName(Enum):
    """Names of the strategies along factors."""

    BASIC = "basic"
    AGGRESSIVE = "aggressive"

    @property
    def function(self) -> Strategy:
        """Function that implements the strategy."""
        return propagate_basic if self is StrategyName.BASIC else propagate_aggressive


@dataclass(frozen=True, slots=True)
class Setting:
    """Inputs of a step besides rule, shardings and directions.

    Attributes:
        strategy: The strategy along factors.
        conservative: Whether axes must not be split into sub-axes.
        elementwise: Whether the operation is elementwise.
        has_kinds: Whether the kinds of the rule's factors matter for directions.
    """

    strategy: StrategyName
    conservative: bool = False
    elementwise: bool = False
    has_kinds: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step with its intermediate results.

    Attributes:
        context: Mesh, directions, and so on.
        before: The shardings by factor before the step.
        after: The shardings by factor after the strategy ran.
        changes: The changes.
    """

    context: StepContext
    before: Projection
    after: Projection
    changes: tuple[Change, ...]


def run_step(
    strategy: Strategy,
    rule: OpShardingRule,
    shardings: Sequence[TensorSharding | None],
    context: StepContext,
    mesh: str | Mesh,
) -> Outcome:
    """Propagate between the tensors of a rule.

    Args:
        strategy: The strategy along factors.
        rule: The rule.
        shardings: Shardings of the operands, then of the results.
        context: Mesh, directions, and so on.
        mesh: The mesh or name that new shardings get.
    """
    count = len(rule.operands)
    before = project(rule, shardings[:count], shardings[count:], context.mesh)
    after = before.copy()
    updated = strategy(after, context)
    mappings = rule.operands + rule.results
    changes = []
    for index, tensor in enumerate(after.tensors):
        if not updated[index]:
            continue
        new = tensor.sharding(mappings[index], rule.factor_sizes, mesh, context.mesh)
        old = shardings[index]
        # Axes that would need a strided view were dropped in the conversion back.
        if new != old and (old is not None or not new.is_fully_replicated):
            changes.append((index, new))
    return Outcome(context, before, after, tuple(changes))


class Steps:
    """A table of the steps on one module's meshes; each is computed once."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table
        self._numbers: dict[int, int] = {}
        self._number_of: dict[SdyAttribute | Setting, int] = {}
        self._shardings: dict[TensorSharding, TensorSharding] = {}
        self._alive: list[SdyAttribute | Setting] = []
        self._known: dict[tuple[int, ...], tuple[Change, ...]] = {}

    def number(self, item: SdyAttribute | Setting) -> int:
        """Return a small integer that is the same for equal objects."""
        found = self._numbers.get(id(item))
        if found is None:
            found = self._number_of.setdefault(item, len(self._number_of))
            self._numbers[id(item)] = found
            self._alive.append(item)  # so that nothing else gets its identity
        return found

    def key(
        self,
        setting: Setting,
        rule: OpShardingRule,
        code: int,
        shardings: Sequence[TensorSharding | None],
    ) -> tuple[int, ...]:
        """Return a key that is equal for equal steps."""
        number = self.number
        return (
            code,
            number(setting),
            number(rule),
            *[-1 if sharding is None else number(sharding) for sharding in shardings],
        )

    def changes(
        self,
        setting: Setting,
        rule: OpShardingRule,
        code: int,
        shardings: Sequence[TensorSharding | None],
    ) -> tuple[Change, ...]:
        """Return the changes of propagation between the tensors of a rule.

        Args:
            setting: The strategy and its options.
            rule: The rule.
            code: Allowed directions (see ``emu.sdy.propagation.priorities``).
            shardings: Shardings of the operands, then of the results.
        """
        key = self.key(setting, rule, code, shardings)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compute(setting, rule, code, shardings)
        return known

    def _mesh(self, shardings: Sequence[TensorSharding | None]) -> str | Mesh | None:
        """Return the common mesh in the form of the shardings, or None without propagation.

        There is none if no tensor has a sharding, if they have different meshes, or if
        the mesh is a single device.
        """
        mesh = common_mesh_or_name(shardings, self._table)
        return None if mesh is None or get_mesh(self._table, mesh).is_maximal else mesh

    def outcome(
        self,
        setting: Setting,
        rule: OpShardingRule,
        code: int,
        shardings: Sequence[TensorSharding | None],
    ) -> Outcome | None:
        """Return the step behind ``changes``; None if there is no propagation."""
        mesh = self._mesh(shardings)
        if mesh is None:
            return None
        context = StepContext(
            get_mesh(self._table, mesh),
            rule.factor_sizes,
            directions(code, rule, has_kinds=setting.has_kinds),
            setting.conservative,
            setting.elementwise,
        )
        return run_step(setting.strategy.function, rule, shardings, context, mesh)

    def _compute(
        self,
        setting: Setting,
        rule: OpShardingRule,
        code: int,
        shardings: Sequence[TensorSharding | None],
    ) -> tuple[Change, ...]:
        outcome = self.outcome(setting, rule, code, shardings)
        if outcome is None:
            return ()
        # Equal shardings share one object, whose number is found by its identity.
        same = self._shardings.setdefault
        return tuple((index, same(sharding, sharding)) for index, sharding in outcome.changes)
