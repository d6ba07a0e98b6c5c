"""Files of compiled code: their names, their contents, and their removal.

Used by the cache of Numba's code (``jit``) and by that of tile kernels; loads no compiler itself. Entries
lie in a folder named by a digest, below a folder that ``cache_folder`` chooses.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from emu.kernels.core import cache_folder

try:
    import fcntl
except ImportError:  # not POSIX: processes compile side by side
    fcntl = None  # type: ignore[assignment]  # the module is optional

_CAN_LOCK = fcntl is not None

UNUSED_AFTER_S = 30 * 24 * 3600.0
"""Age at which unused entries are removed."""

_NAME_DIGITS = 32
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_WAIT_S, _LOOK_AGAIN_S = 120.0, 0.02


def source_digest(root: Path, rooms: tuple[str, ...], versions: str) -> str:
    """Hash every Python source of ``rooms``, following the package's own symlinks.

    Args:
        root: The package folder.
        rooms: Folders in it.
        versions: Versions of all else that the compiled code depends on.

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


# --- entries -------------------------------------------------------------------------------


def find(digest: str, name: str) -> Path | None:
    """Return the path of an entry, or None if there is none.

    Args:
        digest: The folder's name.
        name: The file's.

    Raises:
        CacheFolderError: Others may have written it.
    """
    for root in cache_folder.roots():
        path = cache_folder.trusted(root / digest) / name
        if os.path.exists(path):
            return path
    return None


def read(digest: str, name: str) -> bytes | None:
    """Return the contents of an entry, or None if it cannot be had; see :func:`find`."""
    path = find(digest, name)
    with contextlib.suppress(OSError):
        return path.read_bytes() if path else None
    return None


def store(digest: str, name: str, content: bytes) -> Path | None:
    """Write an entry where that is possible; where it is not, it costs time, never the result.

    Returns:
        Its path, or None.

    Raises:
        CacheFolderError: Others can write there.
    """

    def store_in(folder: Path) -> Path:
        write(folder / name, content)
        return folder / name

    return cache_folder.use(digest, store_in)


def store_checked(digest: str, name: str, payload: bytes) -> Path | None:
    """:func:`store` an entry with a checksum, which :func:`read_checked` takes off."""
    return store(digest, name, hashlib.sha256(payload).digest() + payload)


def read_checked(path: Path | None) -> bytes | None:
    """Return the payload of an entry with a checksum, or None if it cannot be had or is damaged.

    Loading machine code that was cut short would crash the process, so it counts as not there.
    """
    content = b""
    with contextlib.suppress(OSError):
        content = path.read_bytes() if path else b""
    payload = content[_CHECKSUM_BYTES:]
    return payload if hashlib.sha256(payload).digest() == content[:_CHECKSUM_BYTES] else None


def write(path: Path, content: bytes) -> None:
    """Write a file so that others see all of it or none."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix="new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@functools.cache
def keep_tidy(folder: Path) -> None:
    """Mark a folder as used, and remove those of other versions that were not used for long."""
    with contextlib.suppress(OSError):  # another user's folder, a read-only file system
        os.utime(folder)
        remove_unused_folders(folder)


def remove_unused_folders(folder: Path) -> None:
    """Remove the folders beside this one, of other versions, that were not used for long."""
    oldest = time.time() - UNUSED_AFTER_S
    for other in folder.parent.iterdir():
        if other.is_dir() and len(other.name) == _NAME_DIGITS and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


# --- one compiler at a time --------------------------------------------------------------------------

Listener = Callable[[bool, str], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Register a function to call when this process begins (True) and stops (False) compiling a kernel.

    Waiting for another process that compiles the kernel counts as compiling. The second argument is the
    kernel's name.
    """
    _listeners.append(listener)


def ignore(listener: Listener) -> None:
    """Forget a function that was registered with :func:`listen`."""
    _listeners.remove(listener)


@contextlib.contextmanager
def alone(digest: str, name: str, kernel: str) -> Iterator[None]:
    """Keep other processes from compiling the same; a lock that cannot be had costs time only.

    Args:
        digest: The folder's name.
        name: The lock's.
        kernel: Name of the kernel, for listeners.

    Raises:
        CacheFolderError: Others can write into the folder.
    """
    with contextlib.ExitStack() as stack:
        for listener in tuple(_listeners):
            listener(True, kernel)
            stack.callback(listener, False, kernel)
        file = cache_folder.use(digest, lambda folder: (folder / name).open("ab"))
        if file is not None:
            _lock(stack.enter_context(file).fileno())
        yield


def _lock(descriptor: int) -> None:
    """Wait for the lock of a file, but not for ever: its holder may be stopped."""
    deadline = time.monotonic() + (_WAIT_S if _CAN_LOCK else 0.0)
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportOptionalMemberAccess]  # not reached without it
                return
            except BlockingIOError:
                time.sleep(_LOOK_AGAIN_S)
