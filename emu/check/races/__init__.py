"""Races between PEs: clocks, what is known of each byte of the heaps, and what of each signal word.

Internal: names may change in any release.
"""
