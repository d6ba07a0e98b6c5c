"""Access plans of strided tiles, and the compiled loops that copy and add along them.

Internal: names may change in any release.
"""
