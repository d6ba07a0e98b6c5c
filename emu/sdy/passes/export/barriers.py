"""``emu-resolve-propagation-barriers``: removes propagation barriers after propagation.

A barrier changes no value. Where its two sides are sharded unlike, it becomes a reshard.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.dialect.tensors import is_equivalent
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.insertion_point import Place


class ResolvePropagationBarriers(ModulePass, name="emu-resolve-propagation-barriers"):
    """Replace propagation barriers by reshards, or by their operands.

    Shardy leaves those with equal shardings on both sides, and cannot localize them.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Replace the barriers in program order."""
        for each in [each for each in op.walk() if each.name == "sdy.propagation_barrier"]:
            (value,) = each.operands
            source, target = get_sharding(value), get_sharding(each.result)
            if source is not None and target is None:
                target = TensorSharding.fully_closed(source.rank, source.mesh)
            if target is not None and not _is_same(source, target):
                value = Place.before(each).insert(make_reshard(value, target, each.location)).result
            each.replace_with([value])


def _is_same(source: TensorSharding | None, target: TensorSharding) -> bool:
    if source is None:
        return target.is_fully_replicated
    return source.mesh == target.mesh and is_equivalent(source, target)
