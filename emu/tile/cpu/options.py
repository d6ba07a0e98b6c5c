"""Options of the CPU compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one compilation.

    Attributes:
        contract: Let ``a * b + c`` be computed with one rounding, as GPU compilers do by default.
            Default: each operation rounds.
    """

    contract: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            TypeError: ``contract`` is not a bool.
        """
        if not isinstance(self.contract, bool):
            raise TypeError(f"contract must be a bool, but got {self.contract!r:.80}")
