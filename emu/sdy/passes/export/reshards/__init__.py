"""Insertion of reshards, so that every operation's operands and results agree.

Internal: names may change in any release.
"""
