"""Arithmetic on LLVM vectors: element-wise operations, conversions, mathematical functions.

Internal: names may change in any release.
"""
