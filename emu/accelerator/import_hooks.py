"""Changes to modules that are not loaded with torch, made when a script imports them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from emu.accelerator.patches import LEDGER, Ledger


def after_import(name: str, change: Callable[[ModuleType], None], ledger: Ledger = LEDGER) -> None:
    """Call ``change`` with a module after its import, or now if it is loaded already.

    Args:
        name: The module's.
        change: What to call.
        ledger: Where the hook is recorded; undoing its changes takes the hooks back that were not called.
    """
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    _finder(ledger).changes.setdefault(name, []).append(change)


def while_imported(
    name: str,
    around: Callable[[], contextlib.AbstractContextManager[None]],
    ledger: Ledger = LEDGER,
) -> None:
    """Execute a module inside of a context when it is imported; nothing happens if it is loaded already.

    Args:
        name: The module's.
        around: Makes the context.
        ledger: Where the hook is recorded, as in :func:`after_import`.
    """
    if name not in sys.modules:
        _finder(ledger).contexts[name] = around


def _finder(ledger: Ledger) -> _Finder:
    """Return the finder of a ledger; make it if there is none."""
    mine = (f for f in sys.meta_path if isinstance(f, _Finder) and f.ledger is ledger)
    finder = next(mine, None)
    if finder is None:
        finder = _Finder(ledger)
        sys.meta_path.insert(0, finder)
        ledger.record(
            "sys.meta_path",
            "modules are changed when a script imports them",
            lambda: sys.meta_path.remove(finder),
        )
    return finder


class _Finder:
    """Finder of the modules to be changed, once each; the other finders locate them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.changes: dict[str, list[Callable[[ModuleType], None]]] = {}
        self.contexts: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.changes and name not in self.contexts:
            return None
        changes = self.changes.pop(name, [])
        around = self.contexts.pop(name, contextlib.nullcontext)
        spec = find_spec(name)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or execute is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            with around():
                execute(module)
            for change in changes:
                change(module)

        # Set on this specification's own loader object: the loader's class stays unchanged.
        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - a method, for mypy
        return spec
