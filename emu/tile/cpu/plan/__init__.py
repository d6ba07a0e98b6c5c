"""What is computed where: inline values, loop groups and their order."""
