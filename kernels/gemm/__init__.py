"""Inside of ``emu.kernels.matmul``: micro-kernels, packing, and the loops around them.

Internal: names may change in any release.
"""
