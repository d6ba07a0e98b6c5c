"""Options of the CPU compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one compilation.

    Attributes:
        contract: Let ``a * b + c`` be computed with one rounding, as GPU compilers do by default.
            Default: each operation rounds.
        optimise: Run all of LLVM's passes. Without, a kernel compiles in half the time, and runs a few percent
            slower. Default: True.
        disjoint: Promise that no program stores to what it loads, except to the very elements of a load of the
            same shape; no code then checks for that. Default: False.
    """

    contract: bool = False
    optimise: bool = True
    disjoint: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            TypeError: One of them is not a bool.
        """
        for name in ("contract", "optimise", "disjoint"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be a bool, but got {value!r:.80}")
