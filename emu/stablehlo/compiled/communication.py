"""Steps that communicate."""

from __future__ import annotations

from dataclasses import dataclass

from emu.mlir.ir import Operation
from emu.stablehlo.compiled.collectives import CollectivePlan, plan_collective
from emu.stablehlo.compiled.forms import Action, Form, Site, Step
from emu.stablehlo.reference.devices import ThreadDevice
from emu.stablehlo.reference.errors import EvaluationError

SHARED_BYTES = 512 << 10
"""From this size on buffers of collectives lie where other processes can use them, so that nothing is staged.

Measured on the training step of a transformer on 8 PEs: an all_reduce of 1 or 2 MiB takes 0.6 to 0.7 of the
processor time that it takes with staging. Of 64 and 256 KiB it takes as long: what is staged is in the caches,
and private memory has huge pages for the operations that fill it.
"""


@dataclass(frozen=True)
class Collective(Form):
    """A collective.

    Attributes:
        plan: What it does.
    """

    plan: CollectivePlan

    def shared_slots(self, step: Step) -> tuple[int, ...]:
        """Return the slots of a step whose arrays other processes use where they lie."""
        if self.plan.writes_to_others:
            return (*step.operands, *step.results)
        return step.operands

    def bind(self, site: Site) -> Action:
        """Return what communicates."""
        plan, device, env = self.plan, site.device, site.memory.env
        operands, results = site.step.operands, site.step.results
        # Other threads may read what a thread sends for longer than the plan keeps it.
        is_shared = isinstance(device, ThreadDevice)

        def run() -> None:
            given = [env[s] for s in operands]
            if is_shared:
                given = [x.copy() for x in given]
            plan.run(device, given, [env[s] for s in results])

        return run


def collective_form(op: Operation) -> Form | None:
    """Return the form of a collective; None where the reference says what is wrong with it."""
    if "has_dynamic_root" in op.properties:
        return None  # the last operand is no data
    try:
        plan = plan_collective(op)
    except EvaluationError:
        return None
    reused = tuple((i, i) for i in range(len(op.results))) if plan.may_reuse_input else ()
    return Collective(plan, in_place=reused)
