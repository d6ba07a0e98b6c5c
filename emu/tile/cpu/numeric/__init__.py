"""Arithmetic on LLVM vectors: element-wise operations, conversions, mathematical functions."""
