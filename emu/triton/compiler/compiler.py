"""Compiling ahead of a launch, where programs look for it."""

from typing import NoReturn

from emu.triton import knobs
from emu.triton.runtime.ahead import ASTSource, compile
from emu.triton.runtime.cache import triton_key
from emu.triton.runtime.compiled import CompiledKernel
from emu.triton.runtime.compiled import LaunchMetadata as LazyDict
from emu.triton.runtime.described_backends import BaseBackend, Language, make_backend
from emu.triton.runtime.driver import GPUTarget, Utilities, driver
from emu.triton.runtime.errors import OutOfResources

__all__ = [
    "ASTSource",
    "BaseBackend",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "Language",
    "LazyDict",
    "OutOfResources",
    "compile",
    "driver",
    "knobs",
    "make_backend",
    "max_shared_mem",
    "triton_key",
]


class IRSource:
    """Text of an intermediate representation of Triton's; emu cannot compile it, as it has another one.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, path: object, context: object = None, backend: object = None) -> NoReturn:
        del context, backend
        raise NotImplementedError(
            f"{path!s:.200}: emu has no MLIR and cannot compile it; give triton.compile an ASTSource of the kernel"
        )


def max_shared_mem(device: object = None) -> int:
    """Return the size of shared memory that programs may count on, in bytes; kernels here use none."""
    return Utilities.get_device_properties(device)["max_shared_mem"]
