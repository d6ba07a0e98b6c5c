"""Propagation: projections onto factors, strategies, order of steps.

Internal: names may change in any release.
"""
