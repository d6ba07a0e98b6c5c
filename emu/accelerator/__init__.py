"""Accelerators of other programs, stood in for by the CPU."""
