"""Changes to torch modules that are not loaded with torch, made when a script imports them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from emu.accelerator.patches import record


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call ``change`` with a module after its import, or now if it is loaded already."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        record(
            "sys.meta_path",
            "modules are changed when a script imports them",
            lambda: _forget(finder),
        )
    _changes[name] = change


_changes: dict[str, Callable[[ModuleType], None]] = {}


def _forget(finder: _Finder) -> None:
    """Leave modules that are imported from now on as they are."""
    sys.meta_path.remove(finder)
    _changes.clear()


class _Finder:
    """Finder of the modules to be changed, once each; the other finders locate them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = _changes.pop(name, None)
        if change is None:
            return None
        spec = find_spec(name)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or execute is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module)

        # Set on this specification's own loader object: the loader's class stays unchanged.
        setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - a method, for mypy
        return spec
