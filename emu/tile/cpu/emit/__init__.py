"""LLVM IR for a planned function: loops, memory, reductions, products, control flow.

Internal: names may change in any release.
"""
