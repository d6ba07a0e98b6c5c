"""The backend ``"cpu"``: native code, kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.tile.ir import Module
from emu.triton.runtime.backends import Backend, Executable, register

if TYPE_CHECKING:
    from emu.tile import cpu


class CpuBackend(Backend):
    """Compiles kernels for the CPU that they are launched on.

    Its methods import what they need, so that importing Triton loads neither the compiler nor LLVM.
    """

    name = "cpu"
    is_stored = True

    def compile(self, module: Module, contract: bool) -> cpu.Kernel:
        """Make a module executable; ``contract`` lets ``a * b + c`` be rounded once."""
        from emu.tile import cpu

        return cpu.compile(module, options=cpu.Options(contract=contract))

    def target(self) -> str:
        """Return the CPU and its features, and the choices of code generation for it."""
        from emu.tile.cpu.native import default_target
        from emu.tile.cpu.tuning import choices

        return f"{default_target()!r} {choices()!r}"

    def to_bytes(self, executable: Executable) -> bytes:
        """Return an executable as bytes."""
        from emu.tile import cpu

        assert isinstance(executable, cpu.Kernel)
        return executable.to_bytes()

    def from_bytes(self, code: bytes) -> cpu.Kernel:
        """Return the executable that :meth:`to_bytes` turned into bytes."""
        from emu.tile import cpu

        return cpu.Kernel.from_bytes(code)

    def text(self, name: str, module: Module, contract: bool) -> str | None:
        """Return LLVM IR (``"llir"``) or assembly (``"s"``)."""
        if name not in ("llir", "s"):
            return None
        from emu.tile.cpu import native

        # Compiled again, as a kernel that came from disk has its code alone.
        llvm = self.compile(module, contract).llvm
        return native.to_assembly(llvm) if name == "s" else llvm


register(CpuBackend())
