"""A small MLIR: text to plain Python data and back."""

from emu.mlir.text.printer import to_text
from emu.mlir.text.reading import parse

__all__ = ["parse", "to_text"]
