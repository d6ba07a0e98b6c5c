"""Inline assembly: a subset of PTX, run on tensors.

Internal: names may change in any release.
"""
