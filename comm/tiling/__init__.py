"""Tiling data: the bytes by which a host tells a kernel, and a communication server, what to do."""
