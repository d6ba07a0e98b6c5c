"""Export passes, which run after propagation.

Internal: names may change in any release.
"""
