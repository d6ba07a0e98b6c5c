"""``import nvshmem`` as another name of :mod:`emu.accelerator.nvshmem`: the very module, and so are its submodules.

The name is ours whether NVIDIA's package is installed or not, as it is with ``triton`` and ``torch_npu``: that one loads a
library that needs a GPU. Nothing is loaded before a program imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from emu.accelerator.patches import record

_NAME, _HOME = "nvshmem", __name__.rpartition(".")[0]


class _Alias:
    """Finder of ``nvshmem`` and what is below it, which loads it by putting ours in its place."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != _NAME:
            return None
        real = importlib.util.find_spec(_real(name))
        if real is None:
            return None
        is_package = real.submodule_search_locations is not None
        return ModuleSpec(name, _Alias(), origin=real.origin, is_package=is_package)  # type: ignore[arg-type] # the two methods suffice

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Return None: Python makes a new module, which is then replaced."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        name = module.__name__
        sys.modules[name] = importlib.import_module(_real(name))
        _name_loaded()


def _real(name: str) -> str:
    return f"{_HOME}{name[len(_NAME) :]}"


def _name_loaded() -> None:
    """Give modules that are loaded their other names, too: an import must not load them again."""
    for name in [name for name in sys.modules if name.startswith(f"{_HOME}.")]:
        sys.modules.setdefault(f"{_NAME}{name[len(_HOME) :]}", sys.modules[name])


def install() -> None:
    """Give :mod:`emu.accelerator.nvshmem` the name ``nvshmem``, until the emulated devices go.

    A second call does nothing. What a program has imported under this name before keeps it for those who hold it.
    """
    if any(isinstance(finder, _Alias) for finder in sys.meta_path):
        return
    _forget_names()
    finder = _Alias()
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        sys.meta_path.remove(finder)
        _forget_names()

    record("sys.meta_path", "nvshmem is a name of emu's module", undo)


def _forget_names() -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == _NAME]:
        del sys.modules[name]
