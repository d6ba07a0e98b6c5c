"""Import passes, which prepare a module for propagation.

Internal: names may change in any release.
"""
