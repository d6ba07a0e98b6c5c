"""Propagation: projections onto factors, strategies, the order of steps."""
