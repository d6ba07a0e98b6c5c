"""Rewrites of the tile IR; each is a frozen dataclass with ``apply(module)``."""

from emu.tile.passes.carry_offsets import CarryOffsets

__all__ = ["CarryOffsets"]
