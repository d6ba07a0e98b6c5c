"""Plan of a function: inline values, loop groups and their order."""
