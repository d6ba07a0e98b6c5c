"""Settings of a kernel, of which an autotuner chooses one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from emu.triton.runtime import checks

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a launch by name, as functions of the program (hooks, heuristics, models) read them."""


class Config:
    """Settings that an autotuner may choose.

    Args:
        kwargs: Values of parameters of the kernel.
        num_warps: Kept, for devices with warps.
        num_stages: Kept.
        num_ctas: Kept.
        maxnreg: Kept.
        pre_hook: Called with the kernel's arguments by name before each launch with these settings.
        ir_override: Kept.
    """

    def __init__(
        self,
        kwargs: Mapping[str, object],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[Arguments], object] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = checks.as_mapping("kwargs", kwargs)
        for name, value in (("num_warps", num_warps), ("num_ctas", num_ctas)):
            checks.as_integer(name, value, 1)
        checks.as_integer("num_stages", num_stages, 0)
        if maxnreg is not None:
            checks.as_integer("maxnreg", maxnreg, 1)
        checks.check_function("pre_hook", pre_hook)
        self.num_warps = num_warps
        self.num_ctas = num_ctas
        self.num_stages = num_stages
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def _launch_options(self) -> dict[str, object]:
        return {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "num_stages": self.num_stages,
            "maxnreg": self.maxnreg,
            "ir_override": self.ir_override,
        }

    def all_kwargs(self) -> Arguments:
        """Return everything that a launch with these settings passes by name."""
        options = {n: v for n, v in self._launch_options().items() if v is not None}
        return {**self.kwargs, **options}

    def __str__(self) -> str:
        options = self._launch_options()
        if self.ir_override is None:
            del options["ir_override"]
        return ", ".join(f"{n}: {v}" for n, v in {**self.kwargs, **options}.items())

    def _identity(self) -> tuple[object, ...]:
        return (tuple(self.all_kwargs().items()), self.pre_hook)

    def __hash__(self) -> int:
        try:
            return hash(self._identity())
        except TypeError:  # a list, say
            return hash(repr(self.all_kwargs()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()
