"""Reshards that make every operation's operands and results agree."""
