"""A World over several hosts: the agent of each host, and how its PEs reach it.

Internal: names may change in any release.
"""
