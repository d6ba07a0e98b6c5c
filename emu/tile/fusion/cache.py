"""Kernels of recipes: of this process, on disk, or compiled now.

An entry on disk is named by a digest of its recipe and the CPU, in a folder named by a digest of the compiler's sources and of
those of the front end whose operations it has.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emu.kernels.core import cache_files
from emu.tile import cpu
from emu.tile.cpu import native
from emu.tile.fusion.emitters import Emit
from emu.tile.fusion.recipe import Recipe


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Whose operations the nodes of recipes are.

    Attributes:
        name: Names files of the cache.
        sources: Folders below ``emu`` whose sources say what its nodes mean.
        emitters: Returns the function of each kind of node; called when a kernel is compiled.
    """

    name: str
    sources: tuple[str, ...]
    emitters: Callable[[], Mapping[str, Emit]]


_kernels: dict[tuple[str, Recipe], cpu.Kernel] = {}
_lock = threading.Lock()


@functools.cache
def sources_digest(front_end: FrontEnd) -> str:
    """Return a digest of the sources of compiler and front end, and of the versions of the libraries that they use."""
    import llvmlite
    import numpy as np

    versions = f"{llvmlite.__version__} {np.__version__}"
    root = Path(__file__).parents[2]
    return cache_files.source_digest(root, ("tile", *front_end.sources), versions)


def kernel_of(recipe: Recipe, front_end: FrontEnd) -> cpu.Kernel:
    """Return the kernel of a recipe, compiled at most once on this machine."""
    key = (front_end.name, recipe)
    kernel = _kernels.get(key)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(key)
            if kernel is None:
                kernel = _kernels[key] = _find(recipe, front_end)
    return kernel


def load_stored(recipe: Recipe, front_end: FrontEnd) -> None:
    """Load the kernel of a recipe if it is on disk; nothing is compiled."""
    key = (front_end.name, recipe)
    with _lock:
        found = None if key in _kernels else _load(_digest(recipe), front_end)
        if found is not None:
            _kernels[key] = found


def _digest(recipe: Recipe) -> str:
    target = native.default_target()
    text = f"{target.cpu} {target.features} {recipe!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _find(recipe: Recipe, front_end: FrontEnd) -> cpu.Kernel:
    digest, folder = _digest(recipe), sources_digest(front_end)
    found = _load(digest, front_end)
    if found is not None:
        return found
    with cache_files.alone(folder, f"lock-{digest[:2]}", front_end.name):
        found = _load(digest, front_end)
        if found is None:
            found = compile_recipe(recipe, front_end)
            cache_files.store_checked(folder, f"{digest}.kernel", found.to_bytes())
    return found


def compile_recipe(recipe: Recipe, front_end: FrontEnd) -> cpu.Kernel:
    """Compile the kernel of a recipe, whatever has been compiled before."""
    from emu.tile.fusion.emission import module_of

    module = module_of(recipe, front_end.emitters())
    return cpu.compile(module, options=cpu.Options(optimise=False, disjoint=True))


def _load(digest: str, front_end: FrontEnd) -> cpu.Kernel | None:
    path = cache_files.find(sources_digest(front_end), f"{digest}.kernel")
    content = cache_files.read_checked(path)
    if path is None or content is None:
        return None
    cache_files.keep_tidy(path.parent)
    return cpu.Kernel.from_bytes(content)
