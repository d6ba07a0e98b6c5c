"""HIP's runtime library, as programs see it that load it with ``ctypes``: devices, memory, handles for other processes.

:class:`~emu.accelerator.hip.library.HipLibrary` stands for the library. Its functions are called as those of
``ctypes.CDLL("libamdhip64.so")`` are, with pointers to results and structures in HIP's layout, and return HIP's codes
of errors. Device memory is the host's; what is shared with another process is shared by file descriptors, as on the
device.

Internal: names may change in any release.
"""
