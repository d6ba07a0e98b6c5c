"""Limits of the hardware, which the emulator enforces on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.kernels.core.messages import shown


@dataclass(frozen=True, kw_only=True)
class HardwareLimits:
    """Bounds of the fused operators on one generation of hardware.

    ``HardwareLimits.A2`` and ``HardwareLimits.A3`` are the known generations.

    Attributes:
        name: Its name in messages.
        rank_sizes: Supported group sizes.
        k_min: Smallest inner extent.
        k_end: The inner extent must be below this.
        max_turns: Most turns of one call.

    Raises:
        ArgumentError: A field has a wrong type or value.
    """

    A2: ClassVar[HardwareLimits]
    A3: ClassVar[HardwareLimits]

    name: str
    rank_sizes: tuple[int, ...]
    k_min: int = 256
    k_end: int = 65535
    max_turns: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ArgumentError(f"name must be text, but got {shown(self.name)}")
        if not isinstance(self.rank_sizes, tuple) or not self.rank_sizes:
            raise ArgumentError(
                f"rank_sizes must be a tuple of group sizes, but got {shown(self.rank_sizes)}"
            )
        for i, size in enumerate(self.rank_sizes):
            check.integer(f"rank_sizes[{i}]", size, 1)
        check.integer("k_min", self.k_min, 0)
        check.integer("k_end", self.k_end, 1)
        check.integer("max_turns", self.max_turns, 1)

    def check(self, k: int, n_pes: int, turns: int) -> None:
        """Check that the hardware would accept a call.

        Args:
            k: Inner extent of the product.
            n_pes: Size of the group.
            turns: Turns of the call.

        Raises:
            ArgumentError: One of them is out of bounds.
        """
        k, n_pes = check.integer("k", k, 0), check.integer("rank_size", n_pes, 1)
        turns = check.integer("comm_turn", turns, 0)
        if not self.k_min <= k < self.k_end:
            raise ArgumentError(
                f"k must be in [{self.k_min}, {self.k_end}) on {self.name}, but got {k}"
            )
        if n_pes not in self.rank_sizes:
            sizes = ", ".join(map(str, self.rank_sizes))
            raise ArgumentError(f"rank_size must be one of {sizes} on {self.name}, but got {n_pes}")
        if turns > self.max_turns:
            raise ArgumentError(
                f"comm_turn must be at most {self.max_turns} on {self.name}, but got {turns} turns"
            )


def check_limits(limits: HardwareLimits | None, k: int, n_pes: int, turns: int) -> None:
    """Check a call against an operator's ``limits``, if there are any.

    Raises:
        ArgumentError: The limits refuse the call, or ``limits`` is not HardwareLimits.
    """
    if limits is None:
        return
    if not isinstance(limits, HardwareLimits):
        raise ArgumentError(f"limits must be HardwareLimits or None, but got {shown(limits)}")
    limits.check(k, n_pes, turns)


HardwareLimits.A2 = HardwareLimits(name="A2", rank_sizes=(2, 4, 8))
HardwareLimits.A3 = HardwareLimits(name="A3", rank_sizes=(2, 4, 8, 16, 32))
