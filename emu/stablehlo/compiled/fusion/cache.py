"""Kernels of recipes: of this process, on disk, or compiled now.

An entry on disk is named by a digest of its recipe and the CPU, in a folder named by a digest of the compiler's sources.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from pathlib import Path

from emu.kernels.core import cache_files
from emu.stablehlo.compiled.fusion.recipe import Recipe
from emu.tile import cpu
from emu.tile.cpu import native

_kernels: dict[Recipe, cpu.Kernel] = {}
_lock = threading.Lock()


@functools.cache
def sources_digest() -> str:
    """Return a digest of the sources of the compiler and of the versions of the libraries that it uses."""
    import llvmlite
    import numpy as np

    versions = f"{llvmlite.__version__} {np.__version__}"
    root = Path(__file__).parents[3]
    return cache_files.source_digest(root, ("tile", "stablehlo/compiled/fusion"), versions)


def kernel_of(recipe: Recipe) -> cpu.Kernel:
    """Return the kernel of a recipe, compiled at most once on this machine."""
    kernel = _kernels.get(recipe)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(recipe)
            if kernel is None:
                kernel = _kernels[recipe] = _find(recipe)
    return kernel


def load_stored(recipe: Recipe) -> None:
    """Load the kernel of a recipe if it is on disk; nothing is compiled."""
    with _lock:
        found = None if recipe in _kernels else _load(_digest(recipe))
        if found is not None:
            _kernels[recipe] = found


def _digest(recipe: Recipe) -> str:
    target = native.default_target()
    text = f"{target.cpu} {target.features} {recipe!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _find(recipe: Recipe) -> cpu.Kernel:
    digest = _digest(recipe)
    found = _load(digest)
    if found is not None:
        return found
    with cache_files.alone(sources_digest(), f"lock-{digest[:2]}", "fused"):
        found = _load(digest)
        if found is None:
            found = compile_recipe(recipe)
            cache_files.store_checked(sources_digest(), f"{digest}.kernel", found.to_bytes())
    return found


def compile_recipe(recipe: Recipe) -> cpu.Kernel:
    """Compile the kernel of a recipe, whatever has been compiled before."""
    from emu.stablehlo.compiled.fusion.emission import module_of

    return cpu.compile(module_of(recipe), options=cpu.Options(optimise=False, disjoint=True))


def _load(digest: str) -> cpu.Kernel | None:
    path = cache_files.find(sources_digest(), f"{digest}.kernel")
    content = cache_files.read_checked(path)
    if path is None or content is None:
        return None
    cache_files.keep_tidy(path.parent)
    return cpu.Kernel.from_bytes(content)
