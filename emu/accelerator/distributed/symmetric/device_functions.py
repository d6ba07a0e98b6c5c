"""Kernels that call NVSHMEM's or rocSHMEM's functions: torch's decorators for them ask for a library that nobody needs here.

``@requires_nvshmem`` and ``@requires_rocshmem`` look for a file of device code, have each compiled kernel initialised by it,
and make a launch pass its path. ``emu.triton`` knows the functions by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import replace

_PACKAGE = "torch.distributed._symmetric_memory"
_DECORATORS = {
    f"{_PACKAGE}._nvshmem_triton": "requires_nvshmem",
    f"{_PACKAGE}._rocshmem_triton": "requires_rocshmem",
}


def install() -> None:
    """Replace the decorators once a script imports the modules that have them."""
    for module, name in _DECORATORS.items():
        after_import(module, _replacing(name))


def _replacing(name: str) -> Callable[[ModuleType], None]:
    def replace_decorator(module: ModuleType) -> None:
        if hasattr(module, name):
            replace(module, name, _decorator(name), "its device library is not needed")

    return replace_decorator


def _decorator(name: str) -> Callable[[Any], Any]:
    def requires(jit_func: Any) -> Any:
        """Return the kernel as it is.

        Raises:
            TypeError: It is no kernel.
        """
        if not hasattr(jit_func, "fn") or not hasattr(jit_func, "run"):
            raise TypeError(f"Expected a JITFunction, but got {type(jit_func)}")
        return jit_func

    requires.__name__ = requires.__qualname__ = name
    return requires
