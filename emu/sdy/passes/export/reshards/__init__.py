"""Insertion of reshards, so that every operation's operands and results agree."""
