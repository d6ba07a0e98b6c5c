"""The command line: one module per command.

Internal: names may change in any release.
"""
