"""Compiles the Python source of a kernel to the tile IR."""
