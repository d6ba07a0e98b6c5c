"""MLIR text and its errors: the names of ``emu.mlir`` that ``emu.sdy`` offers as its own.

A lazy package can name only modules below itself, so they pass through here.
"""

from emu.mlir import parse, to_text
from emu.mlir.arguments import ArgumentError
from emu.mlir.diagnostics import MlirError, PassFailed

__all__ = ["ArgumentError", "MlirError", "PassFailed", "parse", "to_text"]
