"""Modules that programs import from ``triton.tools``.

Internal: names may change in any release.
"""
