"""NVSHMEM4Py's host side under its own names: ``nvshmem``, over the World of this PE.

This is what a program gets for ``import nvshmem.core`` (see :mod:`.alias`). ``core`` has the documented functions, for
tensors and buffers in symmetric memory; ``bindings`` has those on addresses. Streams of emulated devices do their work
when it is submitted, so each operation is done when its call returns; it is one of the World's methods, which links,
checks and reports of hangs know.

Internal: names may change in any release.
"""

__version__ = "0.2.0+emu"
