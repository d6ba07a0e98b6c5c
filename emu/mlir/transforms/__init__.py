"""Rewriting that knows no dialect: greedy patterns, common subexpressions, inlining."""
