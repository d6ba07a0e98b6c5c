"""Preparation of a module: its partitioned program and the program of one device, kept on disk.

An entry on disk has for its name a digest of the module and of the donated inputs. Its folder is named by a digest
of emu's sources and of all else on which a plan depends. ``cache_folder`` says which folders are
trusted: an entry is a pickle.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

import ml_dtypes
import numpy as np

from emu.kernels.core import cache_files
from emu.mlir.fingerprint import fingerprint
from emu.mlir.ir import Operation
from emu.sdy.execution.local_program import LocalProgram, Path
from emu.sdy.execution.program import DEFAULT_PIPELINE, Partitioned
from emu.sdy.rules.registry import has_user_rules

_SUFFIX = ".program"
_ROOMS = ("kernels", "comm", "tile", "mlir", "stablehlo", "sdy")
"""Rooms whose sources a plan depends on."""
MOST_ENTRIES, MOST_BYTES = 1000, 1 << 29
"""Bounds of a folder; when one is exceeded, the entries go that were not used for longest."""


@dataclass(frozen=True)
class Prepared:
    """A program that is ready to run.

    Attributes:
        partitioned: The partitioned program.
        local: The program of one device, without custom calls.
    """

    partitioned: Partitioned
    local: LocalProgram


def prepare(
    module: Operation, passes: str, *, probed: bool, path: Path, donated: Sequence[int]
) -> Prepared:
    """Partition a module and compile the program of one device, or find both on disk.

    Args:
        module: A module with shardings, or without any; it is left as it is.
        passes: Pipeline that makes the program of one device.
        probed: Whether to put a probe behind each value.
        path: "compiled" or "reference".
        donated: Inputs whose memory a call may overwrite.

    Raises:
        ExecutionError: As of ``partition``.
        PassFailed: A pass failed.
        CacheFolderError: Others can write into the folder of the cache.
    """
    name = None
    # Rules of users are functions that change unseen; other pipelines may have passes of users, and passes
    # that write files. The reference's programs are for checks, and so are probes.
    is_default = isinstance(passes, str) and passes == DEFAULT_PIPELINE  # it is not checked yet
    if is_default and path == "compiled" and not probed and not has_user_rules():
        name = _entry_name(module, donated)
    if name is not None:
        found = _load(name)
        if found is not None:
            return found
    from emu.sdy.execution.partitioned import partition  # loads every pass

    partitioned = partition(module, passes, probed=probed)
    prepared = Prepared(partitioned, LocalProgram.of(partitioned, path, donated))
    if name is not None:
        _store(name, prepared)
    return prepared


@functools.cache
def folder_name() -> str:
    """Return the name of the folder of entries: it changes with all that a plan depends on but the module."""
    # Constants are computed by NumPy, whose functions depend on the CPU.
    cpu = sorted(name for name, there in _cpu_features().items() if there)
    parts = (sys.version, np.__version__, ml_dtypes.__version__, platform.machine(), cpu)
    return cache_files.source_digest(FilePath(__file__).parents[2], _ROOMS, f"programs {parts}")


def _cpu_features() -> dict[str, bool]:
    found: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return found


def _entry_name(module: Operation, donated: Sequence[int]) -> str | None:
    """Return the name of a module's entry; None where it has parts without a digest."""
    try:
        text = f"{fingerprint(module)} {tuple(donated)}"
    except (ValueError, TypeError, AttributeError, pickle.PickleError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:40] + _SUFFIX


def _load(name: str) -> Prepared | None:
    path = cache_files.find(folder_name(), name)
    content = cache_files.read_checked(path)
    if path is None or content is None:
        return None
    cache_files.keep_tidy(path.parent)
    with contextlib.suppress(OSError):  # of another user, or on a read-only disk
        os.utime(path)
    try:
        found = pickle.loads(content)
    except Exception:  # noqa: BLE001 - whatever it is, it is no entry: the program is prepared anew
        return None
    return found if isinstance(found, Prepared) else None


def _store(name: str, prepared: Prepared) -> None:
    try:
        content = pickle.dumps(prepared, 5)
    except (TypeError, ValueError, AttributeError, pickle.PickleError, RecursionError):
        return  # a part of the module cannot be pickled
    path = cache_files.store_checked(folder_name(), name, content)
    if path is not None:
        cache_files.keep_tidy(path.parent)
        _remove_oldest(path.parent)


def _remove_oldest(folder: FilePath) -> None:
    """Remove entries that were not used for long, where there are too many."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as files:
            entries = [
                (s.st_mtime, s.st_size, each.path)
                for each in files
                if each.name.endswith(_SUFFIX)
                for s in [each.stat()]
            ]
        nbytes = sum(size for _, size, _ in entries)
        if len(entries) <= MOST_ENTRIES and nbytes <= MOST_BYTES:
            return
        left = len(entries)
        for _, size, path in sorted(entries):
            # Down to three quarters: else each new entry would remove one.
            if left <= MOST_ENTRIES * 3 // 4 and nbytes <= MOST_BYTES * 3 // 4:
                break
            with contextlib.suppress(FileNotFoundError):  # another process removes them, too
                os.unlink(path)
            left -= 1
            nbytes -= size
