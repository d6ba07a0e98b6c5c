"""``import triton`` as another name of :mod:`emu.triton`: the very module, and so are its submodules.

``triton.language is emu.triton.language``, however it is imported.
"""

from __future__ import annotations

import importlib
import sys

from emu.kernels.core.module_alias import ModuleAlias

_NAME, _HOME = "triton", "emu.triton"
_alias = ModuleAlias(_NAME, _HOME, only_while_held=True)


def install() -> None:
    """Give :mod:`emu.triton` and its modules the name ``triton``; a second call does nothing.

    A ``triton`` that was imported before keeps that name for those who hold it.
    """
    home = importlib.import_module(_HOME)
    if sys.modules.get(_NAME) is home and _alias in sys.meta_path:
        return
    _alias.forget(below_only=True)
    sys.meta_path.insert(0, _alias)
    sys.modules[_NAME] = home
    _alias.name_loaded()


def uninstall() -> None:
    """Take the name ``triton`` back: the next import finds what is installed under it."""
    if sys.modules.get(_NAME) is not sys.modules.get(_HOME):
        return
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _alias]
    _alias.forget()
