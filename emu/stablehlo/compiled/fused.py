"""Steps that fused kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.stablehlo.compiled.forms import Action, Form, Site
from emu.stablehlo.compiled.fusion import FusedKernel
from emu.stablehlo.reference.values import Array


@dataclass(frozen=True)
class Fused(Form):
    """A kernel of several operations.

    Attributes:
        kernel: The kernel.
    """

    kernel: FusedKernel

    def load(self) -> None:
        """Load the kernel, if it is on disk."""
        self.kernel.load()

    def bind(self, site: Site) -> Action:
        """Return what launches the kernel."""
        kernel, env = self.kernel, site.memory.env
        operands, results = site.step.operands, site.step.results
        slots = (*operands, *results)
        if all(map(site.memory.is_static, slots)):
            return kernel.bind([env[s] for s in operands], [env[s] for s in results])
        bound: Callable[[], None] | None = None
        seen: list[Array] = []

        def run() -> None:
            nonlocal bound, seen
            now = [env[s] for s in slots]
            if bound is None or any(a is not b for a, b in zip(now, seen, strict=True)):
                bound = kernel.bind(now[: len(operands)], now[len(operands) :])
                seen = now
            bound()

        return run
