"""Detection of deadlocks: the waits of each PE, and whether anything still moves.

Internal: names may change in any release.
"""
