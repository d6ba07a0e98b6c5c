"""``import triton`` in ``emu run``: the very module :mod:`emu.triton` under its usual name.

So are its submodules: ``triton.language is emu.triton.language``, however it is imported.
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
        if not name.startswith(f"{_NAME}.") or sys.modules.get(_NAME) is not _home:
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


_home = importlib.import_module(_HOME)
sys.meta_path.insert(0, _Alias())
sys.modules[_NAME] = _home
_name_loaded()
