"""How kernels are compiled for CPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a kernel is compiled.

    Attributes:
        contract: Let ``a * b + c`` be computed with one rounding, as GPU compilers do by default.
            Default: each operation rounds.
    """

    contract: bool = False
