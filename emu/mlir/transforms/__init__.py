"""Transforms for all dialects: greedy patterns, common subexpressions, inlining.

Internal: names may change in any release.
"""
