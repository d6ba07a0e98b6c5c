"""Execution of compiled functions: launches, threads, interruption, crashes.

Internal: names may change in any release.
"""
