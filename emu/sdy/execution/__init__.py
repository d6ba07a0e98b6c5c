"""Execution of partitioned programs on PEs, and comparison with the whole program.

Internal: names may change in any release.
"""
