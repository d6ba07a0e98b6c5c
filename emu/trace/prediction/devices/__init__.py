"""Devices: numbers, each with its source, read from the ``.toml`` files beside this module or from the user's own.

``keys`` ← ``device`` ← ``files``.

Internal: names may change in any release.
"""
