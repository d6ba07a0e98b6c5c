"""Refinement of dynamic shapes: the program of one set of shapes.

Internal: names may change in any release.
"""
