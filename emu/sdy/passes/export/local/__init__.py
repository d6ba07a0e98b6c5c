"""Conversion from global to local shapes, which gives the program of each device.

``localization`` has the state of the conversion and the mapping from old to new
values; the other modules convert one kind of operations each, and ``conversion`` is
the pass.

Internal: names may change in any release.
"""
