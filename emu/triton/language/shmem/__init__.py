"""Communication from inside kernels: a device API in the manner of OpenSHMEM, for ``@triton.jit`` functions.

Programs import it as ``emu.shmem``.

Internal: names may change in any release.
"""
