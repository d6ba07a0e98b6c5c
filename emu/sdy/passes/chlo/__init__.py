"""Lowering of CHLO, which front ends emit, to StableHLO, for which Shardy has rules.

Internal: names may change in any release.
"""
