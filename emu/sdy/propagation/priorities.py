"""Priorities of propagation: rounds by kind of operation, and by user priority.

Operation priorities
    Propagation runs to a fixpoint five times, and each round allows more: first
    operations that pass elements on unchanged and whose operands have no other
    user; then also those with other users; then every operation, but only along
    pass-through factors; then along any factor; and last also forward through
    broadcasts. A later round cannot undo the decisions of an earlier one.

User priorities
    A dimension ``{"x"}p1`` is hidden at first: it is closed and empty, and its
    axes are replicated, so that no other dimension takes them. Once propagation
    without it is done, the dimensions of the next priority are restored, and all
    rounds run again.

The directions allowed for an operation are a *code*: four times the direction
along pass-through factors, plus the direction along the others. Small integers
are cheap to compare, and steps are looked up by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from emu.mlir.attributes import StringAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    FactorType,
    OpShardingRule,
    PropagationDirection,
    TensorSharding,
)
from emu.sdy.dialect.axes import sort_key
from emu.sdy.dialect.dataflow import edge_of_target
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.dialect.tensors import is_scalar
from emu.sdy.dialect.walker import FunctionResult, Place, transform_sharding, transform_shardings

_NONE, _FORWARD, _BACKWARD, _BOTH = PropagationDirection

DirectionOf = Callable[[Operation, bool], int]
"""A function from an operation, and whether it is elementwise, to its code."""


def union(first: PropagationDirection, second: PropagationDirection) -> PropagationDirection:
    """Return the direction that allows what either of two allows."""
    return PropagationDirection(first | second)


def code(through: PropagationDirection, other: PropagationDirection) -> int:
    """Return the code of the directions along pass-through factors and along others."""
    return 4 * through + other


def directions(
    direction_code: int, rule: OpShardingRule, *, has_kinds: bool
) -> tuple[PropagationDirection, ...]:
    """Return the allowed direction of each factor.

    Args:
        direction_code: The code of the round.
        rule: The rule.
        has_kinds: Whether the kinds of factors matter; those of an edge all
            count as pass-through factors.
    """
    through, other = map(PropagationDirection, divmod(direction_code, 4))
    blocked = rule.blocked_propagation
    if not has_kinds:
        other = through
    return tuple(
        _NONE
        if factor in blocked
        else through
        if through is other or rule.factor_type(factor) is FactorType.PASS_THROUGH
        else other
        for factor in range(len(rule.factor_sizes))
    )


EVERYWHERE = code(_BOTH, _BOTH)

_PASS_THROUGH = frozenset(
    {
        "sdy.data_flow_edge",
        "sdy.func_data_flow_edge",
        "stablehlo.reshape",
        "stablehlo.transpose",
    }
)
_OFFLOADS = frozenset({"MoveToDevice", "MoveToHost"})


def _pass_through(op: Operation, elementwise: bool) -> PropagationDirection:
    """Return the directions in which an operation passes elements on unchanged."""
    name = op.name
    if elementwise or name in _PASS_THROUGH:
        return _BOTH
    if name in ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"):
        return _FORWARD
    if name == "stablehlo.custom_call":
        target = op.properties.get("call_target_name")
        if isinstance(target, StringAttr) and target.value in _OFFLOADS:
            return _BOTH
    return _NONE


def _single_use(op: Operation, elementwise: bool) -> int:
    direction = _pass_through(op, elementwise)
    if direction is _NONE:
        return 0
    # Forward, every use of the operand could meet a conflict of its own; backward,
    # the uses might disagree.
    if all(value.has_one_use or is_scalar(value) for value in op.operands):
        return code(direction, direction)
    return 0


def _any_use(op: Operation, elementwise: bool) -> int:
    direction = _pass_through(op, elementwise)
    return code(direction, direction)


def _factors_that_go_through(op: Operation, elementwise: bool) -> int:
    other = _pass_through(op, elementwise)
    through = _BACKWARD if op.name == "stablehlo.broadcast_in_dim" else _BOTH
    return code(union(through, other), other)


def _broadcast_backward(op: Operation, elementwise: bool) -> int:
    if op.name == "stablehlo.broadcast_in_dim":
        return code(_BACKWARD, _BACKWARD)
    return EVERYWHERE


def everywhere(op: Operation, elementwise: bool) -> int:
    """Return the code that allows every axis in both directions."""
    return EVERYWHERE


ROUNDS: tuple[DirectionOf, ...] = (
    _single_use,
    _any_use,
    _factors_that_go_through,
    _broadcast_backward,
    everywhere,
)
"""Rounds by operation priority; each allows at least as much as the one before."""


@dataclass(frozen=True, slots=True)
class _Hidden:
    place: Value | FunctionResult
    original: TensorSharding


class UserPriorities:
    """Dimensions with priorities above 0, hidden at first and restored one priority at a time.

    Attributes:
        changed: Places with priorities, and their shardings without them.
    """

    def __init__(self, module: Operation, table: SymbolTable) -> None:
        self._table = table
        self._hidden: dict[int, list[_Hidden]] = {}
        self.changed: list[tuple[Value | FunctionResult, TensorSharding]] = []
        transform_shardings(module, self._hide)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the priorities above 0, ascending."""
        return iter(sorted(self._hidden))

    def _hide(self, sharding: TensorSharding, place: Place) -> TensorSharding:
        if isinstance(place, Value) and edge_of_target(place) is not None:
            return sharding
        if place is not None:
            for priority in {dim.priority_or_default for dim in sharding.dims} - {0}:
                self._hidden.setdefault(priority, []).append(_Hidden(place, sharding))
        new = self._without_priorities(sharding)
        if place is not None and new != sharding:
            self.changed.append((place, new))
        return new

    def _without_priorities(self, sharding: TensorSharding) -> TensorSharding:
        if all(dim.priority is None for dim in sharding.dims):
            return self._sorted(sharding, ())
        dims = []
        hidden: list[AxisRef] = []
        for dim in sharding.dims:
            if dim.priority_or_default == 0:
                dims.append(replace(dim, priority=None))
            else:
                hidden += dim.axes
                dims.append(DimensionSharding((), True))
        return self._sorted(sharding.with_dims(dims), tuple(hidden))

    def _sorted(self, sharding: TensorSharding, more: tuple[AxisRef, ...]) -> TensorSharding:
        axes = sharding.replicated_axes + more
        if len(axes) > 1:
            axes = tuple(sorted(axes, key=sort_key(get_mesh(self._table, sharding.mesh))))
        return (
            sharding
            if axes == sharding.replicated_axes
            else replace(sharding, replicated_axes=axes)
        )

    def restore(self, priority: int) -> list[tuple[Value | FunctionResult, TensorSharding]]:
        """Restore the dimensions of a priority.

        Returns:
            The places that changed, with their shardings now.
        """
        restored = []
        for hidden in self._hidden[priority]:

            def put_back(now: TensorSharding, hidden: _Hidden = hidden) -> TensorSharding:
                sharding = _restored(now, hidden.original, priority)
                restored.append((hidden.place, sharding))
                return sharding

            transform_sharding(hidden.place, put_back)
        return restored


def _restored(now: TensorSharding, then: TensorSharding, priority: int) -> TensorSharding:
    back: set[AxisRef] = set()
    dims = []
    for new, old in zip(now.dims, then.dims, strict=True):
        if old.priority_or_default == priority:
            back.update(old.axes)
            dims.append(replace(old, priority=None))
        else:
            dims.append(new)
    replicated = tuple(axis for axis in now.replicated_axes if axis not in back)
    return replace(now, dims=tuple(dims), replicated_axes=replicated)
