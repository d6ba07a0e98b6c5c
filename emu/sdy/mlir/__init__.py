"""A small MLIR: text to plain Python data and back."""
