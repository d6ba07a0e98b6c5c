"""Removal of collectives that a compiler's own collective matmul inserts."""

from __future__ import annotations

from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.shardings import get_sharding, set_shardings
from emu.sdy.passes.base import FunctionPass, Session

_DOTS = frozenset({"stablehlo.dot", "stablehlo.dot_general"})


class RemoveAllGatherReduceScatterForCMV1(
    FunctionPass, name="sdy-remove-all-gather-reduce-scatter-for-cmv1"
):
    """Remove all-gathers that only a dot uses, and reduce-scatters of a dot's result.

    Then the compiler sees a dot with sharded operands or a sharded result, and
    overlaps the communication with the multiplication. A dot that lost an all-gather
    keeps its reduce-scatter.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Collect all operations first, since others may depend on those to be erased."""
        removed: list[Operation] = []
        for dot in op.walk(post_order=True):
            if dot.name in _DOTS:
                gathers = [gather for value in dot.operands if (gather := _gather(value))]
                removed += gathers
                if not gathers and (scatter := _scatter(dot)) is not None:
                    sharding = get_sharding(scatter.result)
                    set_shardings(dot, () if sharding is None else (sharding,))
                    removed.append(scatter)
        for each in removed:
            each.replace_with(each.operands[:1])


def _gather(value: Value) -> Operation | None:
    """Return the all-gather that defines a value with a single user, or None."""
    op = value.defining_op
    return op if op is not None and op.name == "sdy.all_gather" and value.has_one_use else None


def _scatter(dot: Operation) -> Operation | None:
    """Return the reduce-scatter that is the only user of a dot, or None.

    The dot's own sharding must not leave partial sums to later operations.
    """
    if not dot.result.has_one_use:
        return None
    (user,) = dot.result.users
    sharding = get_sharding(dot.result)
    if user.name != "sdy.reduce_scatter" or (sharding is not None and sharding.unreduced_axes):
        return None
    return user
