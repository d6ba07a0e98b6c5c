"""Shardy in Python: MLIR text, the sdy dialect, rules, propagation, explanations.

    >>> import emu.sdy
    >>> module = emu.sdy.parse(text)              # StableHLO with sdy shardings
    >>> emu.sdy.run(module, "sdy-propagation-pipeline")
    >>> print(module)
    >>> print(emu.sdy.explain(text).value("%5")[0])

Only what is asked for is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.mlir import parse, to_text
    from emu.mlir.arguments import ArgumentError
    from emu.mlir.diagnostics import MlirError, PassFailed
    from emu.sdy.jax import from_jax
    from emu.sdy.passes.run import run
    from emu.sdy.provenance import Explanation, ValueReport, explain
    from emu.sdy.rules import register as register_rule

__all__ = [
    "ArgumentError",
    "Explanation",
    "MlirError",
    "PassFailed",
    "ValueReport",
    "explain",
    "from_jax",
    "parse",
    "register_rule",
    "run",
    "to_text",
]

_HOMES = {
    "ArgumentError": ("emu.mlir.arguments", "ArgumentError"),
    "Explanation": ("emu.sdy.provenance", "Explanation"),
    "MlirError": ("emu.mlir.diagnostics", "MlirError"),
    "PassFailed": ("emu.mlir.diagnostics", "PassFailed"),
    "ValueReport": ("emu.sdy.provenance", "ValueReport"),
    "explain": ("emu.sdy.provenance", "explain"),
    "from_jax": ("emu.sdy.jax", "from_jax"),
    "parse": ("emu.mlir", "parse"),
    "register_rule": ("emu.sdy.rules", "register"),
    "run": ("emu.sdy.passes.run", "run"),
    "to_text": ("emu.mlir", "to_text"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("emu.sdy.dialect")  # registers the dialects that `parse` is to know
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
