"""The folder of compiled code: where it is, what names it, who writes it, what is removed from it.

Used by the cache of Numba's code (``jit``) and by that of tile kernels; loads no compiler itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not POSIX: processes compile side by side
    fcntl = None  # type: ignore[assignment]

_CAN_LOCK = fcntl is not None

UNUSED_AFTER_S = 30 * 24 * 3600.0
"""Age at which what was not used is removed."""

_NAME_DIGITS = 32
_WAIT_S, _LOOK_AGAIN_S = 120.0, 0.02


def base() -> Path:
    """Return the folder of all that emu compiles: ``EMU_CACHE_DIR``, or ``emu`` in the user's cache."""
    given = os.environ.get("EMU_CACHE_DIR")
    if given is None:
        home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
        given = os.path.join(home, "emu")
    return Path(given)


def source_digest(root: Path, rooms: tuple[str, ...], versions: str) -> str:
    """Hash every Python source of ``rooms``, following the package's own symlinks.

    Args:
        root: The package folder.
        rooms: Folders in it.
        versions: Of what the compiled code depends on besides.

    Returns:
        32 hexadecimal digits which change when any of the sources, or a version, changes.
    """
    digest = hashlib.sha256(versions.encode())
    for room in rooms:
        for folder, _, files in sorted(os.walk(root / room, followlinks=True)):
            for name in sorted(files):
                if name.endswith(".py"):
                    path = Path(folder, name)
                    digest.update(str(path.relative_to(root)).encode())
                    digest.update(path.read_bytes())
    return digest.hexdigest()[:_NAME_DIGITS]


def remove_unused_folders(folder: Path) -> None:
    """Remove the folders beside this one, of other versions, that were not used for long."""
    oldest = time.time() - UNUSED_AFTER_S
    for other in folder.parent.iterdir():
        if other.is_dir() and len(other.name) == _NAME_DIGITS and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


def keep_others_out(stack: contextlib.ExitStack, lock: Path) -> None:
    """Hold a lock file until the stack is closed; a lock that cannot be had costs time only."""
    if not _CAN_LOCK:
        return
    with contextlib.suppress(OSError):
        file = stack.enter_context(lock.open("ab"))
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_LOOK_AGAIN_S)
