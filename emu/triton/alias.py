"""``import triton`` as another name of :mod:`emu.triton`: the very module, and so are its submodules.

``triton.language is emu.triton.language``, however it is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME, _HOME = "triton", "emu.triton"


class _Alias:
    """Finder of ``triton.x``, which loads it by putting ``emu.triton.x`` in its place."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(f"{_NAME}.") or sys.modules.get(_NAME) is not sys.modules.get(_HOME):
            return None
        real = f"{_HOME}{name[len(_NAME) :]}"
        if importlib.util.find_spec(real) is None:
            return None
        return ModuleSpec(name, _Alias(), origin=real)  # type: ignore[arg-type] # the two methods suffice

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Return None: Python makes a new module, which is then replaced."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        name = module.__name__
        sys.modules[name] = importlib.import_module(f"{_HOME}{name[len(_NAME) :]}")
        _name_loaded()


def _name_loaded() -> None:
    """Give loaded modules their usual names, too.

    Importing them by those names then changes nothing: a package may have put an object in the place of a
    submodule, as ``triton.runtime.driver`` is.
    """
    for name in [name for name in sys.modules if name.startswith(f"{_HOME}.")]:
        sys.modules.setdefault(f"{_NAME}{name[len(_HOME) :]}", sys.modules[name])


def install() -> None:
    """Give :mod:`emu.triton` and its modules the name ``triton``; a second call does nothing.

    A ``triton`` that was imported before keeps that name for those who hold it.
    """
    home = importlib.import_module(_HOME)
    if sys.modules.get(_NAME) is home and any(isinstance(f, _Alias) for f in sys.meta_path):
        return
    for name in [name for name in sys.modules if name.startswith(f"{_NAME}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Alias())
    sys.modules[_NAME] = home
    _name_loaded()


def uninstall() -> None:
    """Take the name ``triton`` back: the next import finds what is installed under it."""
    if sys.modules.get(_NAME) is not sys.modules.get(_HOME):
        return
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Alias)]
    for name in [n for n in sys.modules if n == _NAME or n.startswith(f"{_NAME}.")]:
        del sys.modules[name]
