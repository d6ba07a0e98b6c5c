"""Kernels that run as Python: each statement is executed by Python itself, each operation at once.

``rewriting`` adapts a kernel's syntax tree to Python's rules (``callees`` has the functions that it calls),
``evaluation`` is a builder of the tile IR that evaluates what is appended, by the reference evaluator, and
``tensors`` shows the values. ``grid`` runs the programs of a launch one after the other.

Internal: names may change in any release.
"""
