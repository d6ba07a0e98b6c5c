"""Registry of backends: the ways to make a kernel of the tile IR executable.

A backend registers itself under the name that programs choose it by; nothing here knows which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from emu.tile.ir import Module
from emu.triton.runtime.arguments import Packed

Launch: TypeAlias = Callable[[int, int, int, Sequence[Packed]], None]
"""Runs a kernel for a grid, x, y and z, with the packed values of its arguments."""


class Executable(Protocol):
    """A kernel that can run."""

    def bind(self, threads: int) -> Launch:
        """Return a function that runs it on at most that many threads."""


class PassedTensor(NamedTuple):
    """A tensor whose address an executable is given.

    Attributes:
        name: The argument's name.
        value: The tensor or array.
        is_written: Whether the kernel may write to it.
    """

    name: str
    value: Any
    is_written: bool


DeviceLaunch: TypeAlias = Callable[
    [tuple[int, int, int], Sequence[Packed], Sequence[PassedTensor | None]], None
]
"""Runs a kernel for a grid with the packed values of its arguments, and the tensors among these."""


@runtime_checkable
class DeviceExecutable(Protocol):
    """A kernel that does not run on the host, or may not touch all of its memory."""

    def bind_device(self, warps: int) -> DeviceLaunch:
        """Return a function that runs it on blocks of so many warps."""


class Backend:
    """Base of backends: compiles kernels, and may keep them on disk.

    Nothing of it is called by a warm launch: that calls what :meth:`Executable.bind` returned.

    Attributes:
        name: Name in the option ``backend`` of a launch and in ``EMU_TRITON_BACKEND``.
        is_stored: Whether executables are kept on disk; :meth:`to_bytes` and :meth:`from_bytes` then
            convert them.
        takes_device_tensors: Whether tensors may be in the memory of a GPU.
    """

    name: str
    is_stored = False
    takes_device_tensors = False

    def compile(self, module: Module, contract: bool) -> Executable:
        """Make a module executable; it may be changed.

        Args:
            module: The module of a kernel.
            contract: Whether ``a * b + c`` may be rounded once.
        """
        raise NotImplementedError

    def target(self) -> str:
        """Return a text of what executables depend on besides the kernel, such as the CPU."""
        return ""

    def to_bytes(self, executable: Executable) -> bytes:
        """Return an executable as bytes."""
        raise NotImplementedError

    def from_bytes(self, code: bytes) -> Executable:
        """Return the executable that :meth:`to_bytes` turned into bytes, perhaps in another process."""
        raise NotImplementedError

    def text(self, name: str, module: Module, contract: bool) -> str | None:
        """Return a readable form of what a module becomes (``"llir"``, ``"s"``), or None if it has none."""
        del name, module, contract
        return None


_backends: dict[str, Backend] = {}


def register(backend: Backend) -> None:
    """Make a backend known.

    Raises:
        ValueError: Another backend has the name.
    """
    if backend.name in _backends:
        raise ValueError(f"name must be that of no other backend, but got {backend.name!r}")
    _backends[backend.name] = backend


def names() -> tuple[str, ...]:
    """Return the names of the backends, in the order in which they were registered."""
    return tuple(_backends)


def find(name: str) -> Backend:
    """Return the backend of a name.

    Raises:
        KeyError: No backend has the name.
    """
    return _backends[name]
