"""CUDA's Python bindings on emulated devices: what libraries call of ``cuda.bindings`` and ``cuda.core`` by themselves.

Where the bindings are installed, their functions that :mod:`.driver` and :mod:`.runtime` have are replaced when a program
imports them. The others call a driver that is not there, and say so.

Internal: names may change in any release.
"""

from __future__ import annotations

from types import ModuleType

from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import replace

_REASON = "it calls a GPU's driver"


def install() -> None:
    """Change the modules of the bindings when they are imported."""
    after_import("cuda.bindings.driver", _replace_driver)
    after_import("cuda.bindings.runtime", _replace_runtime)


def _replace_driver(module: ModuleType) -> None:
    from emu.accelerator.cuda_python import driver

    _replace_names(module, driver, "cu")


def _replace_runtime(module: ModuleType) -> None:
    from emu.accelerator.cuda_python import runtime

    _replace_names(module, runtime, "cuda")


def _replace_names(module: ModuleType, ours: ModuleType, prefix: str) -> None:
    """Replace what a module has of our names; classes too, as what they hold is compared."""
    for name, value in vars(ours).items():
        if name.lower().startswith(prefix) and hasattr(module, name):
            replace(module, name, value, _REASON)
