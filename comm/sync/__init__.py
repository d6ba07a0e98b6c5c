"""Compiled primitives of synchronisation: futexes, clocks, region locks, signals, the emulated link.

Internal: names may change in any release.
"""
