"""``sdy-populate-op-sharding-rules``: sets the sharding rules of all operations."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.rules import get_or_create


class PopulateOpShardingRules(FunctionPass, name="sdy-populate-op-sharding-rules"):
    """Set ``sdy.sharding_rule`` where it is missing and a rule is known.

    Attributes:
        conservative_propagation: Whether rules let only factors that divide a
            dimension shard it.
    """

    conservative_propagation: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Set the rules in a function, inner operations first."""
        for each in op.walk(post_order=True):
            get_or_create(
                each,
                conservative=self.conservative_propagation,
                diagnostics=session.diagnostics,
            )
