"""Equal operations joined: what is computed twice from the same values is computed once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from emu.mlir.attributes import Attribute
from emu.mlir.effects import is_effect_free
from emu.mlir.ir import Block, Operation, Value
from emu.mlir.types import TensorType
from emu.stablehlo.compiled.units import is_planned

_NEVER = {"stablehlo.custom_call", "stablehlo.optimization_barrier", "stablehlo.rng"}
"""Operations that give other numbers each time, or that keep values apart: recomputation is asked for with a barrier."""


_CHEAP = {
    *("stablehlo.abs", "stablehlo.add", "stablehlo.and", "stablehlo.compare", "stablehlo.convert"),
    *("stablehlo.maximum", "stablehlo.minimum", "stablehlo.multiply", "stablehlo.negate"),
    *("stablehlo.not", "stablehlo.or", "stablehlo.select", "stablehlo.subtract", "stablehlo.xor"),
}
"""Operations that a kernel computes again for less than it takes to keep a result in memory."""

_FEW = 16384
"""Elements that are cheap to keep."""


def join_equal_operations(block: Block) -> None:
    """Replace operations by equal ones that have run before, in a block and in those of its control flow.

    Equal are operations of one name with equal operands, attributes and types, without regions and effects. The
    first one in the order of the program stays, with its location: it is the one whose error would be told.
    Regions that are applied to elements are left alone: they would no longer be closed.
    """
    _Joiner().join(block, [])


class _Joiner:
    def __init__(self) -> None:
        self._equal: dict[Value, Value] = {}  # what stays though it is computed elsewhere, too

    def join(self, block: Block, around: list[dict[Hashable, Operation]]) -> None:
        """Join the operations of a block; ``around`` holds those before it, by what equal ones share."""
        known: dict[Hashable, Operation] = {}
        scopes = [*around, known]
        for op in block.operations:
            if is_planned(op):
                for region in op.regions:
                    self.join(region.blocks[0], scopes)
                continue
            if not _can_be_joined(op):
                continue
            key = self._key(op)
            same = next((scope[key] for scope in scopes if key in scope), None)
            if same is None:
                known[key] = op
            elif _is_computed_again(op):
                self._equal[op.result] = same.result
            else:
                op.replace_with(same.results)

    def _key(self, op: Operation) -> Hashable:
        """Return what equal operations share."""
        operands = tuple(self._equal.get(v, v) for v in op.operands)
        types = tuple(result.type for result in op.results)
        return (op.name, operands, types, *map(_items, (op.properties, op.attributes)))


def _is_computed_again(op: Operation) -> bool:
    """Return whether an operation stays though there is an equal one."""
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    return op.name in _CHEAP and math.prod(type_.static_shape) > _FEW


def _can_be_joined(op: Operation) -> bool:
    return (
        bool(op.results)
        and not op.regions
        and op.dialect in ("stablehlo", "chlo")
        and op.name not in _NEVER
        and all(isinstance(r.type, TensorType) and r.type.is_static for r in op.results)
        and is_effect_free(op)
    )


def _items(named: Mapping[str, Attribute]) -> Hashable:
    return tuple(sorted(named.items(), key=lambda item: item[0]))
