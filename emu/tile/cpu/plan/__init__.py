"""Plan of a function: inline values, loop groups and their order.

Internal: names may change in any release.
"""
