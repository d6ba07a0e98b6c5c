"""The World of a PE: symmetric arrays, one-sided transfers, waits, collectives.

Internal: names may change in any release.
"""
