"""The folder of compiled code, and the rules by which it is trusted.

It holds machine code and pickles, and both are run when they are loaded. So the folder must
belong to the user, or to root, and nobody else may write into it, or put another in its place: the
rules by which ``ssh`` trusts the files of a user. A folder that breaks them is refused with
:class:`CacheFolderError`; nothing is read from it.

A folder that cannot be *written* (read-only, full) costs time, not the result: what is not in it is
compiled, and kept in a temporary folder until the program ends, so that the PEs of a launch compile
it once. One :class:`CacheWarning` says so.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from emu.kernels.core import environment
from emu.kernels.errors import CacheFolderError, CacheWarning

T = TypeVar("T")

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_RUN = f"emu-kernels-{os.urandom(16).hex()}"
"""Name of the temporary folder of this process and of those that it forks; any of them may make it."""


def base() -> Path:
    """Return the folder of all that emu compiles, which may not exist yet.

    It is ``EMU_CACHE_DIR``, or ``emu`` in ``XDG_CACHE_HOME``, or ``~/.cache/emu``. A variable that is
    empty counts as unset, and so does an ``XDG_CACHE_HOME`` that is not absolute, as its definition has it.
    """
    given = environment.cache_folder()
    if given is None:
        home = environment.user_cache_folder() or os.path.expanduser("~/.cache")
        given = os.path.join(home, "emu")
    return Path(os.path.abspath(given))


def check() -> None:
    """Check that the cache may be used; one that is not there yet may be made.

    Raises:
        CacheFolderError: Others can write into it.
    """
    trusted(base())


def trusted(folder: Path) -> Path:
    """Return the real path of a folder into which nobody else can write; it need not exist yet.

    Raises:
        CacheFolderError: Others can, or could put another folder in its place.
    """
    return _trusted(str(folder))


@functools.cache
def _known(path: str) -> Path:
    """Return the real path of a folder that exists, after a check of each folder above it."""
    real = Path(os.path.realpath(path))
    _check_folder(real, os.stat(real))
    for parent in real.parents:
        _check_parent(real, parent, os.stat(parent))
    return real


def _trusted(path: str) -> Path:
    if not hasattr(os, "geteuid"):  # not POSIX
        return Path(path)
    try:
        return _known(path)
    except FileNotFoundError:  # not there yet, so that it is not known for good
        real = Path(os.path.realpath(path))
        for parent in real.parents:
            if parent.exists():
                _check_parent(real, parent, os.stat(parent))
        return real
    except OSError:  # cannot be reached, so neither read nor written
        return Path(path)


def _check_folder(folder: Path, found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        return  # cannot be used, and so does no harm
    if found.st_uid not in (0, os.geteuid()):
        raise CacheFolderError(
            f"the folder of compiled kernels must belong to {_user(os.geteuid())} or root, because "
            f"code is run from it, but {_say(folder, found)}; set EMU_CACHE_DIR to a folder of your own"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise CacheFolderError(
            "the folder of compiled kernels must be writable by its owner only, because code is run "
            f"from it, but {_say(folder, found)}; remove it, or run `chmod -R go-w {folder}` if "
            "nobody else can have written into it, or set EMU_CACHE_DIR to another folder"
        )


def _check_parent(folder: Path, parent: Path, found: os.stat_result) -> None:
    writable = found.st_mode & _OTHERS_WRITE
    if writable == stat.S_IWGRP and _is_private(found.st_gid):
        writable = 0
    if found.st_uid in (0, os.geteuid()) and (not writable or found.st_mode & stat.S_ISVTX):
        return
    raise CacheFolderError(
        f"nobody but {_user(os.geteuid())} and root may be able to replace the folder of compiled "
        f"kernels {folder}, because code is run from it, but {_say(parent, found)}; set EMU_CACHE_DIR "
        "to a folder elsewhere" + (f", or run `chmod go-w {parent}`" if writable else "")
    )


def _is_private(group: int) -> bool:
    """Return whether a group has no member but this user: many systems give each user such a group."""
    import grp
    import pwd

    try:
        me = pwd.getpwuid(os.geteuid())
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return group == me.pw_gid and entry.gr_name == me.pw_name and set(entry.gr_mem) <= {me.pw_name}


def _say(path: Path, found: os.stat_result) -> str:
    return f"{path} belongs to {_user(found.st_uid)} and has mode {stat.S_IMODE(found.st_mode):04o}"


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def make(folder: Path) -> Path:
    """Make a folder of compiled code that only this user can enter, if it is not there.

    Returns:
        Its real path.

    Raises:
        OSError: It cannot be made.
        CacheFolderError: It is there, and others can write into it.
    """
    trusted(folder.parent)
    if not folder.is_dir():
        for one in (*reversed(folder.parents), folder):
            if not one.is_dir():
                with contextlib.suppress(FileExistsError):  # by another process, or it is a file
                    one.mkdir(mode=0o700)
    real = trusted(folder)
    if not real.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    return real


# --- where the cache cannot be written -----------------------------------------------------


@functools.cache
def _places() -> tuple[Path, ...]:
    """Return where the temporary folder is made when it is needed: the first place that works."""
    places = []
    with contextlib.suppress(OSError):  # there is none that can be written
        places.append(tempfile.gettempdir())
    # PEs need this one in any case; a disk that is full is often that of /tmp, too.
    if os.path.isdir("/dev/shm"):
        places.append("/dev/shm")
    return tuple(Path(place, _RUN) for place in places)


def _remove(owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked ends earlier
        for path in _places():
            shutil.rmtree(path, ignore_errors=True)


atexit.register(_remove, os.getpid())


def roots() -> list[Path]:
    """Return the folders below which compiled code may be found: the cache, and that of this run.

    Raises:
        CacheFolderError: Others can write into the cache.
    """
    return [trusted(base()), *(path for path in _places() if _is_ours(path))]


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(CacheFolderError):
        return path.is_dir() and trusted(path) is not None
    return False


def use(digest: str, action: Callable[[Path], T]) -> T | None:
    """Run an action that writes into the folder of this name in the cache, or, if it fails, elsewhere.

    Args:
        digest: The folder's name.
        action: Gets the folder's path, and raises OSError where it cannot write.

    Returns:
        What the action returns; None if it could write nowhere.

    Raises:
        CacheFolderError: Others can write into the cache.
    """
    try:
        return action(make(base() / digest))
    except OSError as error:
        _say_unwritable(error)
    for place in _places():
        with contextlib.suppress(OSError, CacheFolderError):
            return action(make(place / digest))
    return None


def _say_unwritable(error: OSError) -> None:
    """Warn once among the processes that share a temporary folder: the one that makes it does."""
    for place in _places():
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            return
        except OSError:
            continue
        break
    else:
        if _said:
            return
    _said.append(str(error))
    warnings.warn(
        f"the folder of compiled kernels {base()} cannot be written ({error.strerror or error}): "
        "what is not in it is compiled in every run",
        CacheWarning,
        stacklevel=2,
    )


_said: list[str] = []
