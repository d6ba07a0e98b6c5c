"""From the Python source of a kernel to the tile IR.

Internal: names may change in any release.
"""
