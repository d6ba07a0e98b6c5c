"""The backend ``"reference"``: the interpreter of the tile IR, exact and slow."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from emu.tile.ir import Module
from emu.tile.packing import slot
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Backend, Launch, register


class ReferenceKernel:
    """A module that the reference interpreter runs, one instance after the other."""

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


class ReferenceBackend(Backend):
    """Interprets kernels."""

    name = "reference"

    def compile(self, module: Module, contract: bool) -> ReferenceKernel:
        """Make a module executable; every operation is rounded by itself."""
        return ReferenceKernel(module)


register(ReferenceBackend())
