"""Triton's experiments: their names, so that libraries can be imported, and no more.

Internal: names may change in any release.
"""
