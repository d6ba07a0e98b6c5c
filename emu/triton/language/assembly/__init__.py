"""Inline assembly: a subset of PTX, run on tensors."""
