"""Propagation: projections onto factors, strategies, order of steps."""
