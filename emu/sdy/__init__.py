"""Shardy in Python: MLIR text, the sdy dialect, rules, propagation, explanations.

    >>> import emu.sdy
    >>> module = emu.sdy.parse(text)              # StableHLO with sdy shardings
    >>> emu.sdy.run_passes(module, "sdy-propagation-pipeline")
    >>> print(module)
    >>> print(emu.sdy.explain(text).value("%5")[0])

Only what is asked for is imported.
"""

from importlib import import_module
from typing import Any

import lazy_loader

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        import_module("emu.sdy.dialect")  # registers the dialects that `parse` is to know
    return _find(name)
