"""Steps that the reference computes: what has no compiled form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.stablehlo.compiled.forms import Action, Form, Site
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured

COLLECTIVES = {
    *("stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all"),
    *("stablehlo.collective_broadcast", "stablehlo.collective_permute", "stablehlo.recv"),
    *("stablehlo.collective_reduce", "stablehlo.cross-replica-sum", "stablehlo.reduce_scatter"),
    *("stablehlo.send",),
}
"""Operations that send values to other devices."""


@dataclass(frozen=True)
class Fallback(Form):
    """The reference's handler; its results are copied to where they are planned."""

    def bind(self, site: Site) -> Action:
        """Return what calls the handler."""
        op, program, env = site.op, site.program, site.memory.env
        handler = HANDLERS.get(op.name)
        outside = captured(op)
        slots = site.step.operands
        count = len(slots) - len(outside)
        # Other threads may read what a thread sends for longer than the plan keeps it.
        is_shared = op.name in COLLECTIVES and not isinstance(program.device, SingleDevice)
        own, around, targets = slots[:count], slots[count:], site.step.results

        def run() -> None:
            if handler is None:
                raise EvaluationError("the operation cannot be evaluated")
            values = {v: env[s] for v, s in zip(outside, around, strict=True)}
            given = [env[s] for s in own]
            if is_shared:
                given = [x.copy() for x in given]
            found = handler(op, given, Scope(program, values))
            store(op, found, [env[s] for s in targets])

        return run


def store(op: Operation, found: Sequence[Array], targets: Sequence[Array]) -> None:
    """Copy a handler's results to where they are planned."""
    if len(found) != len(targets):
        raise EvaluationError(f"gives {len(found)} results, but must give {len(targets)}")
    for result, array, target in zip(op.results, found, targets, strict=True):
        if not isinstance(result.type, TensorType):
            continue  # A token holds nothing.
        if array.shape != target.shape or array.dtype != target.dtype:
            raise EvaluationError(f"gives {array.dtype}{list(array.shape)}, but must {result.type}")
        np.copyto(target, array)
