"""Deadlocks as graphs: who waits for whom, the cycle or the missing party, and the likely causes.

Internal: names may change in any release.
"""
