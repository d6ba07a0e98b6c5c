"""A small MLIR: text to plain Python data and back."""

from emu.sdy.mlir.parser import parse
from emu.sdy.mlir.printer import to_text

__all__ = ["parse", "to_text"]
