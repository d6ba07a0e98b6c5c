"""Import hooks of `emu run`: torch comes with emulated devices, and emu can be imported.

In a PE this is loaded by `emu run`, in each Python process that starts below it by the `sitecustomize`
beside this file. It imports next to nothing: it runs in processes that never import torch as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without loading typing
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))


class _TorchFinder:
    """Finder of the real torch, which installs the emulation once torch is loaded.

    A stand-in named torch on the path would work too, until a program looks up torch's specification or
    puts another folder before it: here every program sees the one real torch, from its first line on.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        spec = _find_with_others(name, path, target)
        if spec is not None:
            _install_after(spec)
        return spec


def _find_with_others(
    name: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Return the module specification that finders outside this file find."""
    for finder in sys.meta_path:
        if not isinstance(finder, (_TorchFinder, _EmuFinder)):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _install_after(spec: ModuleSpec) -> None:
    """Make this specification's loader install the emulation after it has executed the module."""
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        execute(module)
        install_emulation(module)

    # Set on this specification's own loader object: the loader's class stays unchanged.
    setattr(loader, "exec_module", exec_module)  # noqa: B010 - a method, for mypy


def install_emulation(torch: ModuleType) -> None:
    """Install the emulated devices, unless the module is another one that a script calls torch."""
    if hasattr(torch, "Tensor"):
        import emu.accelerator
        import emu.inductor

        emu.accelerator.install()
        emu.inductor._install_when_needed()


class _EmuFinder:
    """Finder of the emu that this file belongs to, for processes with no other on their path."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "emu":
            return None
        from importlib.util import spec_from_file_location

        home = os.path.dirname(FOLDER)
        return spec_from_file_location(
            name, os.path.join(home, "__init__.py"), submodule_search_locations=[home]
        )


def install() -> None:
    """Install the finders in this process; a second call does nothing."""
    if any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _TorchFinder())
    sys.meta_path.append(_EmuFinder())
    torch = sys.modules.get("torch")
    if torch is not None:
        install_emulation(torch)


def run_next_sitecustomize() -> None:
    """Execute the `sitecustomize` that this folder's hides, if there is one."""
    folders = [folder for folder in sys.path if os.path.abspath(folder) != FOLDER]
    spec = _find_with_others("sitecustomize", folders)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
