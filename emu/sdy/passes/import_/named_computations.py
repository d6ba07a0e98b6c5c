"""``emu-rename-named-computations``: names that tell a user's named computations apart.

Propagation takes functions for equal that come from computations of one name, and are sharded alike: calls then
call one of them. That holds of the named computations that propagation makes of calls. A user's may have
the name of another one, or of a function, and compute something else: Shardy's results are silently wrong then.
"""

from __future__ import annotations

from emu.mlir.attributes import StringAttr
from emu.mlir.ir import Operation
from emu.sdy.passes.base import ModulePass, Session


class RenameNamedComputations(ModulePass, name="emu-rename-named-computations"):
    """Append a number to the names of named computations that something else has. Run it before propagation."""

    def run(self, op: Operation, session: Session) -> None:
        """Rename the computations of a module, all but the first of each name."""
        named = [each for each in op.walk() if each.name == "sdy.named_computation"]
        if not named:
            return
        used = {each.symbol_name for each in op.body()}
        for each in named:
            name = each.properties["name"]
            assert isinstance(name, StringAttr)  # checked by the verifier
            new, number = name.value, 0
            while new in used:
                new, number = f"{name.value}_{number}", number + 1
            used.add(new)
            each.properties["name"] = StringAttr(new)
