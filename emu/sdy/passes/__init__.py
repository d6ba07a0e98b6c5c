"""Passes: frozen dataclasses whose fields are their options.

Internal: names may change in any release.
"""
