"""Programs of the tile IR as native code: compile and launch."""

from __future__ import annotations

import copy
import ctypes
import struct
from collections.abc import Sequence

from emu.tile import cpu
from emu.tile.cpu.run.thread import thread_state
from emu.tile.ir import Module


def run(
    module: Module,
    arguments: Sequence[bool | int | float],
    grid: tuple[int, int, int] = (1, 1, 1),
    threads: int = 1,
) -> cpu.Kernel:
    """Compile and launch, as ``emu.tile.reference.run`` interprets; return the kernel."""
    kernel = cpu.compile(copy.deepcopy(module))
    address, alive = pack(kernel, arguments)
    if kernel.scratch_bytes:  # what earlier programs left there must not matter
        ctypes.memset(thread_state.grow(kernel.scratch_bytes), 0, kernel.scratch_bytes)
    kernel.launch(address, *grid, threads)
    del alive
    return kernel


def pack(kernel: cpu.Kernel, arguments: Sequence[bool | int | float]) -> tuple[int, object]:
    """Return the address of packed arguments, and what keeps them alive."""
    formats = kernel.format.replace("4x", "")
    given = [int(a) if f in "qQ" else a for a, f in zip(arguments, formats, strict=True)]
    packed = struct.pack(f"<{kernel.format}", *given)
    buffer = ctypes.create_string_buffer(packed, len(packed) + 8)
    return ctypes.addressof(buffer), buffer
