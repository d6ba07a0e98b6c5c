"""PEs as operating-system processes: launch, input and output, results, crashes.

Internal: names may change in any release.
"""
