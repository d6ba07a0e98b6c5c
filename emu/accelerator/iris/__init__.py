"""iris (ROCm/iris) on emulated devices: its kernels and its host layer run as they are, on the World's symmetric heap.

Two of its modules reach for the hardware. The one that loads HIP's runtime library gets
:class:`~emu.accelerator.hip.library.HipLibrary`; the one that allocates the heap gets memory of the symmetric heap, so
that a heap's base of another rank is the address of that PE's part. All else is iris's own code.

Internal: names may change in any release.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from emu.accelerator.import_hooks import after_import, while_imported
from emu.accelerator.patches import replace

if TYPE_CHECKING:
    from emu.accelerator.hip.library import HipLibrary

HIP_MODULES = ("iris.host.platform.hip", "iris.hip")
"""The module that loads HIP's library, since iris's split into host and device code of April 2026, and before."""

ALLOCATORS = ("iris.host.memory.allocators.torch_allocator", "iris.allocators.torch_allocator")
"""The module of its allocator, likewise."""


def install() -> None:
    """Change the modules of iris when they are imported."""
    for name in HIP_MODULES:
        while_imported(name, _hip_is_there)
    for name in ALLOCATORS:
        after_import(name, _replace_allocator)


@functools.cache
def _library() -> HipLibrary:
    from emu.accelerator.hip.library import HipLibrary

    return HipLibrary()


@contextlib.contextmanager
def _hip_is_there() -> Iterator[None]:
    """Let ``ctypes`` find HIP's library, whether there is one or not: devices are emulated."""
    loader: Any = ctypes.cdll
    load = loader.LoadLibrary

    def load_library(name: str) -> Any:
        return _library() if name == "libamdhip64.so" else load(name)

    loader.LoadLibrary = load_library
    try:
        yield
    finally:
        del loader.LoadLibrary


def _replace_allocator(module: Any) -> None:
    from emu.accelerator.iris.heap import make_allocator

    allocator = make_allocator(module.TorchAllocator)
    replace(module, "TorchAllocator", allocator, "its heaps are parts of the symmetric heap")
