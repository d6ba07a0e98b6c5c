"""The shared segment and its contents: the table of allocations, the symmetric heaps.

Internal: names may change in any release.
"""
