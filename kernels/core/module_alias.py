"""Other names of modules: ``import triton`` may give a package of ours, the very module, and so its submodules.

However a module is imported, there is one of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class ModuleAlias:
    """Finder of a package's other name and of what is below it: it loads them by putting the package's modules there.

    Args:
        name: The other name.
        home: Name of the package.
        only_while_held: Whether it finds nothing while another module has the name.
    """

    def __init__(self, name: str, home: str, *, only_while_held: bool = False) -> None:
        self.name = name
        self.home = home
        self._only_while_held = only_while_held

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is loaded; None: by somebody else."""
        if name.partition(".")[0] != self.name:
            return None
        if self._only_while_held and (name == self.name or not self._is_held()):
            return None
        real = importlib.util.find_spec(self._real(name))
        if real is None:
            return None
        is_package = real.submodule_search_locations is not None
        return ModuleSpec(name, self, origin=real.origin, is_package=is_package)  # type: ignore[arg-type] # the two methods suffice

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: Python makes a new module, which is then replaced."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the package's module in the place of a new one."""
        name = module.__name__
        sys.modules[name] = importlib.import_module(self._real(name))
        self.name_loaded()

    def _is_held(self) -> bool:
        found = sys.modules.get(self.name)
        return found is not None and found is sys.modules.get(self.home)

    def _real(self, name: str) -> str:
        return f"{self.home}{name[len(self.name) :]}"

    def name_loaded(self) -> None:
        """Give loaded modules their other names, too: an import must not load them again.

        A package may also have put an object in the place of a submodule.
        """
        for name in [name for name in sys.modules if name.startswith(f"{self.home}.")]:
            sys.modules.setdefault(f"{self.name}{name[len(self.home) :]}", sys.modules[name])

    def forget(self, *, below_only: bool = False) -> None:
        """Take the name from all modules that have it.

        Args:
            below_only: Leave it to the package itself.
        """
        for name in [n for n in sys.modules if n.partition(".")[0] == self.name]:
            if not below_only or name != self.name:
                del sys.modules[name]
