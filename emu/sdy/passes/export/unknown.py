"""``emu-replicate-unknown-calls``: makes whole what a custom call takes and gives.

Nothing is known about what a custom call computes unless it has a sharding rule. On shards,
it would compute something else than on whole arrays: Shardy's results are silently wrong
there. A user who knows that it works on shards gives it a rule (``sdy.sharding_rule``), or
puts it into a manual computation.
"""

from __future__ import annotations

from emu.mlir.attributes import StringAttr
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.sdy.rules import get_or_create

_ABOUT_SHARDINGS = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "mhlo.sharding"}
)


class ReplicateUnknownCalls(ModulePass, name="emu-replicate-unknown-calls"):
    """Reshard operands and results of custom calls without sharding rule to whole arrays.

    Run it after ``sdy-insert-explicit-reshards``.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Visit the custom calls in program order."""
        for each in list(op.walk()):
            target = each.properties.get("call_target_name")
            if each.name != "stablehlo.custom_call" or not isinstance(target, StringAttr):
                continue
            is_known = target.value in _ABOUT_SHARDINGS
            if is_known or get_or_create(each, set_on_op=False) is not None:
                continue
            _replicate(each)


def _replicate(op: Operation) -> None:
    place = Place.before(op)
    for index, value in enumerate(op.operands):
        sharding = get_sharding(value)
        if sharding is not None and not sharding.is_fully_replicated:
            whole = TensorSharding.fully_closed(sharding.rank, sharding.mesh)
            op.set_operand(index, place.insert(make_reshard(value, whole, op.location)).result)
    place = Place.after(op)
    for result in op.results:
        sharding = get_sharding(result)
        if sharding is None or sharding.is_fully_replicated:
            continue
        back = place.insert(make_reshard(result, sharding, op.location)).result
        replace_other_uses(result, back)
        set_sharding(result, TensorSharding.fully_closed(sharding.rank, sharding.mesh))
