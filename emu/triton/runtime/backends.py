"""What executes a kernel: native code for the CPU, or the reference interpreter of the tile IR."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Protocol

from emu.tile.ir import Module
from emu.tile.types import DType, Kind, Pointer


class Executable(Protocol):
    """A kernel that can run.

    Attributes:
        format: How ``struct`` packs its arguments.
    """

    format: str

    def launch(self, arguments: int, x: int, y: int, z: int, threads: int) -> Any:
        """Run it for a grid, with the packed arguments at an address."""


class ReferenceKernel:
    """Runs a module in the reference interpreter, one program after the other; exact and slow."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.format = "".join(_slot(a.type) for a in module.kernel.body.arguments)
        self._size = struct.calcsize(self.format)

    def launch(self, arguments: int, x: int, y: int, z: int, threads: int) -> None:
        """Run it for a grid; ``threads`` is not looked at."""
        from emu.tile.reference import run

        run(
            self._module,
            struct.unpack(self.format, ctypes.string_at(arguments, self._size)),
            (x, y, z),
        )


def _slot(type_: Any) -> str:
    if isinstance(type_, Pointer):
        return "Q"
    assert isinstance(type_, DType)
    if type_.kind is Kind.FLOAT:
        return "d" if type_.bits == 64 else "f4x"
    return "Q" if type_.kind is Kind.UINT else "q"


def compile_module(module: Module, backend: str, contract: bool = False) -> Executable:
    """Make a module executable; it may be changed.

    Args:
        module: Of a kernel.
        backend: ``"cpu"`` or ``"reference"``.
        contract: Whether native code may round ``a * b + c`` once.
    """
    if backend == "reference":
        return ReferenceKernel(module)
    from emu.tile import cpu

    return cpu.compile(module, options=cpu.Options(contract=contract))


def load(code: bytes) -> Executable:
    """Load what ``to_bytes`` of a kernel for the CPU gave."""
    from emu.tile import cpu

    return cpu.Kernel.from_bytes(code)


__all__ = ["Executable", "ReferenceKernel", "compile_module", "load"]
