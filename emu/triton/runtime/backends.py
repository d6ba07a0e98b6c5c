"""Backends: native code for the CPU, and the reference interpreter of the tile IR."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from emu.tile.ir import Module
from emu.tile.packing import slot
from emu.triton.runtime.arguments import Packed

Launch: TypeAlias = Callable[[int, int, int, Sequence[Packed]], None]
"""Runs a kernel for a grid, x, y and z, with the packed values of its arguments."""


class Executable(Protocol):
    """A kernel that can run."""

    def bind(self, threads: int) -> Launch:
        """Return a function that runs it on at most that many threads."""


class ReferenceKernel:
    """A module that the reference interpreter runs, one instance after the other; exact and slow."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._slots = struct.Struct("".join(slot(a.type) for a in module.kernel.body.arguments))

    def bind(self, threads: int) -> Launch:
        """Return a function that runs it, on one thread."""

        def launch(x: int, y: int, z: int, values: Sequence[Packed]) -> None:
            from emu.tile.reference import run

            # Numbers become what an argument of their dtype holds.
            run(self._module, self._slots.unpack(self._slots.pack(*values)), (x, y, z))

        return launch


def compile_module(module: Module, backend: str, contract: bool = False) -> Executable:
    """Make a module executable; it may be changed.

    Args:
        module: The module of a kernel.
        backend: ``"cpu"`` or ``"reference"``.
        contract: Whether native code may round ``a * b + c`` once.
    """
    if backend == "reference":
        return ReferenceKernel(module)
    from emu.tile import cpu

    return cpu.compile(module, options=cpu.Options(contract=contract))


def load(code: bytes) -> Executable:
    """Load a kernel for the CPU from the bytes that its ``to_bytes`` returned."""
    from emu.tile import cpu

    return cpu.Kernel.from_bytes(code)
