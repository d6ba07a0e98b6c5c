"""Merging of constants that were split for propagation and got equal shardings."""

from __future__ import annotations

from emu.mlir.attributes import Attribute
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.types import Type
from emu.sdy.dialect.tensors import is_scalar
from emu.sdy.passes.base import FunctionPass, Session

_CONSTANTS = frozenset({"sdy.constant", "stablehlo.constant"})

_Key = tuple[frozenset[tuple[str, Attribute]], Region | None, Type | None, Value | None]


class ConstantOrScalarMerger(FunctionPass, name="sdy-constant-or-scalar-merger"):
    """Merge equal constants, and equal broadcasts of a scalar.

    Import splits constants so that their uses do not shard each other. Those in one
    region with equal shardings are merged again: the key consists of the attributes,
    and the sharding is one of them.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Keep the first of each kind."""
        first: dict[_Key, Operation] = {}
        for each in op.walk(post_order=True):
            key = _key(each)
            if key is not None and (kept := first.setdefault(key, each)) is not each:
                each.replace_with(kept.results)


def _key(op: Operation) -> _Key | None:
    is_constant = op.name in _CONSTANTS
    if not is_constant and (
        op.name != "stablehlo.broadcast_in_dim" or not is_scalar(op.operands[0])
    ):
        return None
    attributes = frozenset((*op.properties.items(), *op.attributes.items()))
    region = op.parent.parent if op.parent is not None else None
    if is_constant:
        return (attributes, region, None, None)
    return (attributes, region, op.result.type, op.operands[0])
