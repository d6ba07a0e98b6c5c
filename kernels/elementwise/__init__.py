"""Kernels that work row by row: quantisation, scales, the rules of the quantised scatter.

Internal: names may change in any release.
"""
