"""Shardy in Python: MLIR text, the sdy dialect, rules, propagation, explanations."""
