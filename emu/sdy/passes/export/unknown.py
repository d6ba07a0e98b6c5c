"""``emu-replicate-unknown-calls``: makes whole what operations without sharding rule take and give.

Nothing is known about what a custom call computes unless it has a sharding rule. On shards,
it would compute something else than on whole arrays: Shardy's results are silently wrong
there, and so they are of the few operations of StableHLO that have no rule. A user who knows
that a call works on shards gives it a rule (``sdy.sharding_rule``), or puts it into a manual
computation. The rules that JAX gives to LAPACK's calls let matrices be cut, too: it says beside
them how many dimensions are a batch, and matrices are made whole.
"""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.attributes import DictAttr, StringAttr
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.sdy.rules import get_or_create
from emu.stablehlo.dialect import SPECS

_HOLDING = frozenset(
    {
        *("stablehlo.if", "stablehlo.tuple", "stablehlo.async_start", "stablehlo.async_done"),
        "stablehlo.replica_id",
    }
)
"""Operations without a rule that only hold or pass on values."""

_ABOUT_SHARDINGS = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "mhlo.sharding"}
)


class ReplicateUnknownCalls(ModulePass, name="emu-replicate-unknown-calls"):
    """Reshard operands and results of operations without sharding rule to whole arrays.

    Run it after ``sdy-insert-explicit-reshards``.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Visit the operations in program order."""
        for each in list(op.walk()):
            if each.name == "stablehlo.custom_call":
                _visit_call(each)
            elif _is_unknown(each) and get_or_create(each, set_on_op=False) is None:
                _replicate(each)


def _visit_call(op: Operation) -> None:
    target = op.properties.get("call_target_name")
    if not isinstance(target, StringAttr) or target.value in _ABOUT_SHARDINGS:
        return
    batch = _batch_dimensions(op)
    if get_or_create(op, set_on_op=False) is None:
        _replicate(op)
    elif batch is not None:
        _replicate(op, batch)


def _is_unknown(op: Operation) -> bool:
    """Return whether an operation would see the difference between shards and whole tensors."""
    spec = SPECS.get(op.name)
    if spec is None or op.name in _HOLDING or spec.pointwise:
        return False
    if spec.elementwise:
        # Scales along a dimension belong to its indices, which shards would count from 0.
        return any("!quant" in str(value.type) for value in (*op.operands, *op.results))
    return not (spec.needs_no_rule or spec.terminator or spec.constant)


def _batch_dimensions(op: Operation) -> int | None:
    """Return how many dimensions a custom call of JAX's linear algebra takes one by one."""
    found = op.attributes.get("mhlo.frontend_attributes")
    count = found.get("num_batch_dims") if isinstance(found, DictAttr) else None
    if isinstance(count, StringAttr) and count.value.isdigit():
        return int(count.value)
    return None


def _replicate(op: Operation, batch: int = 0) -> None:
    """Make dimensions of an operation's tensors whole, but for the first ones."""
    place = Place.before(op)
    for index, value in enumerate(op.operands):
        whole = _whole(get_sharding(value), batch)
        if whole is not None:
            op.set_operand(index, place.insert(make_reshard(value, whole, op.location)).result)
    place = Place.after(op)
    for result in op.results:
        sharding = get_sharding(result)
        whole = _whole(sharding, batch)
        if sharding is None or whole is None:
            continue
        back = place.insert(make_reshard(result, sharding, op.location)).result
        replace_other_uses(result, back)
        set_sharding(result, whole)


def _whole(sharding: TensorSharding | None, batch: int) -> TensorSharding | None:
    """Return a sharding of the first dimensions only; None where it is no other."""
    if sharding is None or all(not dim.axes for dim in sharding.dims[batch:]):
        return None
    whole = TensorSharding.fully_closed(sharding.rank, sharding.mesh)
    return replace(whole, dims=(*sharding.dims[:batch], *whole.dims[batch:]))
