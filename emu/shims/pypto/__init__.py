"""``import pypto`` in ``emu run``: the very modules of :mod:`emu.pypto` under their usual names."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import emu.pypto as _home

# Every module under both names, so that an enum or a class is the same whichever way it is imported.
for _module in pkgutil.iter_modules(_home.__path__):
    sys.modules[f"{__name__}.{_module.name}"] = importlib.import_module(f"emu.pypto.{_module.name}")
sys.modules[__name__] = _home
