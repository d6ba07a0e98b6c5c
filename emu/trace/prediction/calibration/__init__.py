"""Calibration: micro-kernels whose work is known, measured on a device, and the efficiencies that explain their times best.

``suite`` (kernels and their work) ← ``measure`` (runs them on a GPU), ``fit`` (over ``nnls``).

Internal: names may change in any release.
"""
