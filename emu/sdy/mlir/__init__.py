"""A small MLIR: text to plain Python data and back."""

from emu.sdy.mlir.printer import to_text
from emu.sdy.mlir.reading import parse

__all__ = ["parse", "to_text"]
