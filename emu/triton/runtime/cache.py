"""Compiled kernels on disk, so that another process need not compile them again.

An entry is one file, named by a digest of everything that its code depends on, in a folder named by a
digest of the compiler's own sources. It is written by an atomic rename; a file that is cut short or
damaged counts as none. What was not used for 30 days is removed. A kernel is compiled by one process at
a time: PEs that all meet an unknown one wait for the first of them and load its code.

Set ``EMU_CACHE_DIR`` to move the cache; ``emu.kernels.core.cache_folder`` says which folders are trusted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emu.kernels.core import cache_files, cache_folder
from emu.kernels.core.cache_files import UNUSED_AFTER_S, remove_unused_folders, source_digest
from emu.triton import knobs
from emu.triton.runtime.cache_managers import (
    CacheManager,
    FileCacheManager,
    RedisRemoteCacheBackend,
    RemoteCacheBackend,
    RemoteCacheManager,
    _base32,
    default_cache_dir,
    default_dump_dir,
    default_override_dir,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)

__all__ = [
    "CacheManager",
    "FileCacheManager",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "RemoteCacheManager",
    "_base32",
    "alone",
    "default_cache_dir",
    "default_dump_dir",
    "default_override_dir",
    "folder",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
    "knobs",
    "load",
    "read",
    "save",
    "sources_digest",
    "triton_key",
    "write",
]

_DAY_S = 24 * 3600.0
_SWEPT = "swept"

Entry = tuple[dict[str, Any], bytes]
"""What is stored: facts that JSON can hold, and the code."""


@functools.cache
def sources_digest() -> str:
    """Return a digest of the sources of the compiler and of the versions of the libraries that it uses."""
    import llvmlite
    import numpy as np

    versions = f"{llvmlite.__version__} {np.__version__}"
    return source_digest(Path(__file__).parents[2], ("tile", "triton"), versions)


def triton_key() -> str:
    """Return a text that identifies this compiler; torch uses it in the keys of its caches."""
    return f"emu-{sources_digest()}"


def folder() -> Path:
    """Return the folder of kernels that this version compiles; it may not exist yet."""
    return cache_folder.base() / sources_digest()


def load(key: str) -> Entry | None:
    """Return what is stored under a key, or None."""
    path = cache_files.find(sources_digest(), f"{key}.kernel")
    payload = cache_files.read_checked(path)
    if path is None or payload is None:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    head, _, code = payload.partition(b"\n")
    facts: dict[str, object] = json.loads(head)
    return facts, code


def save(key: str, facts: dict[str, object], code: bytes) -> None:
    """Store what was compiled; a cache that cannot be written costs time, never the result."""
    payload = json.dumps(facts).encode() + b"\n" + code
    path = cache_files.store_checked(sources_digest(), f"{key}.kernel", payload)
    if path is not None:
        with contextlib.suppress(OSError):
            _sweep(path.parent)


def read(name: str) -> bytes | None:
    """Return the contents of a file of the folder, or None if it cannot be read."""
    return cache_files.read(sources_digest(), name)


def write(name: str, content: bytes) -> Path | None:
    """Write a file into the folder atomically; return its path, or None if nothing could be written."""
    return cache_files.store(sources_digest(), name, content)


def _sweep(here: Path) -> None:
    """Remove old files here and old folders of other versions, at most once a day."""
    now = time.time()
    mark = here / _SWEPT
    if mark.exists() and mark.stat().st_mtime > now - _DAY_S:
        return
    mark.touch()
    os.utime(here)
    for path in here.iterdir():
        if path.stat().st_mtime < now - UNUSED_AFTER_S:
            path.unlink()
    remove_unused_folders(here)


@contextlib.contextmanager
def alone(key: str) -> Iterator[None]:
    """Keep other processes from compiling the kernel of this key; a lost lock costs time only."""
    with cache_files.alone(sources_digest(), f"lock-{key[:2]}", key):
        yield
