"""Collectives turn by turn: the records that describe one, and the compiled steps of a turn.

Internal: names may change in any release.
"""
