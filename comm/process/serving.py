"""The process of the fork server: its socket, and its replacement when it is outdated.

Its socket has no name. multiprocessing binds it in a folder ``pymp-*`` of the temporary folder, which it
removes when the launcher ends by itself and leaves there when it is killed; an abstract socket would
leave nothing, but any user could have code run through it. Linux can connect to a socket whose name
has been removed, through a descriptor of the file that it was; so the folder lives for the
milliseconds in which the server is started.

A server that was started before kernels were compiled lacks them, and each PE forked from it loads them
again. After a launch that compiled something the next one gets a fresh server. So does a launch that names
modules to be loaded which the server has not; that one loads what the server before it had, too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import connection, forkserver, process
from typing import Any

from emu.comm.memory import helpers
from emu.kernels.core import system

_lock = threading.RLock()  # a session that is collected as garbage may end inside
_launches = 0
_outdated = False
_replaced: list[int] = []
"""Processes of earlier servers."""
_loaded: tuple[str, ...] = ()
"""Modules that launches have named and the running server has loaded."""

MODULES = ["emu.comm.process.load", "emu.comm.process.preload"]
"""Modules that every server loads."""


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """Keep the server from being replaced inside the block: PEs of it are running."""
    global _launches
    with _lock:
        _launches += 1
    try:
        yield
    finally:
        with _lock:
            _launches -= 1


def note_compiled() -> None:
    """Note that there are compiled kernels which the server has not loaded."""
    global _outdated
    with _lock:
        _outdated = True


def ensure_running(preload: Sequence[str] = ()) -> None:
    """Start a fork server unless one is running that has all kernels compiled by the last launch.

    Args:
        preload: Modules that it shall load, too.
    """
    global _loaded
    with _lock:
        # Of a server that ended a module may be why; of an outdated one nobody may need them any more.
        kept = _loaded if _is_alive() and not _outdated else ()
        wanted = tuple(dict.fromkeys((*kept, *preload)))
        if _outdated or wanted != kept:
            _replace()
        if not _is_alive():
            forkserver.set_forkserver_preload([*MODULES, *wanted, "emu.comm.process.settle"])
            _loaded = wanted
        with _folder_for_the_socket() as folder, helpers.importing_alike():
            forkserver.ensure_running()
            if folder is not None:
                _forget_name(folder)


def server_pid() -> int | None:
    """Return the process id of the server, if one was started."""
    pid: int | None = _server()._forkserver_pid
    return pid


def new_listener() -> tuple[socket.socket, str]:
    """Return a socket for another fork server, whose name is gone where that can be, and its address."""
    with _lock, _folder_for_the_socket() as folder:
        listener = socket.socket(socket.AF_UNIX)
        try:
            # multiprocessing removes its folder of temporary files, in which this is, at its end.
            address: str = vars(connection)["arbitrary_address"]("AF_UNIX")
            listener.bind(address)
            os.chmod(address, 0o600)
            listener.listen()
            return listener, address if folder is None else _without_name(address)
        except BaseException:
            listener.close()
            raise


@contextlib.contextmanager
def through(address: str, alive: int, key: bytes | None) -> Iterator[None]:
    """Have processes that are started inside the block forked from another server.

    Args:
        address: Address of its socket.
        alive: Descriptor of the pipe whose end it waits for.
        key: What it was started with, from :func:`new_key`.
    """
    with _lock:
        server = _server()
        before = {name: getattr(server, name, None) for name in _ADDRESSED}
        changed: dict[str, Any] = dict(zip(_ADDRESSED, (address, alive, key), strict=True))
        _set(server, changed)
        try:
            yield
        finally:
            # Unless multiprocessing found its own server dead, and has started another.
            if server._forkserver_address == address:
                _set(server, before)


_ADDRESSED: tuple[str, ...] = ("_forkserver_address", "_forkserver_alive_fd", "_forkserver_authkey")
"""How the server is reached; Python 3.14 asks it for a key."""


def new_key() -> bytes | None:
    """Return a key for another fork server, which it asks for since Python 3.14; None before."""
    return os.urandom(32) if hasattr(_server(), "_forkserver_authkey") else None


def _set(server: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if hasattr(server, name):
            setattr(server, name, value)


def _server() -> Any:
    # There is no public way to it; its attributes are the same on 3.8 to 3.14.
    return vars(forkserver)["_forkserver"]


def _is_alive() -> bool:
    """Return whether a server runs; leave its exit status to multiprocessing, which asks for it itself."""
    pid = _server()._forkserver_pid
    if pid is None:
        return False
    if not hasattr(os, "waitid"):
        return True
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _replace() -> None:
    """End the server, unless processes of it run: their exit statuses would be lost."""
    global _outdated
    if _launches > 1 or multiprocessing.active_children():
        return
    _outdated = False
    server = _server()
    if server._forkserver_pid is not None:
        _replaced.append(server._forkserver_pid)
        os.close(server._forkserver_alive_fd)  # it ends by itself
        close_address(server._forkserver_address)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    for pid in tuple(_replaced):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                continue
        _replaced.remove(pid)


def _after_fork() -> None:
    """Forget the server and its processes in a copy of this process: they are children of the original."""
    global _lock, _launches
    _lock = threading.RLock()  # another thread may have held it
    _launches = 0
    _replaced.clear()
    vars(process)["_children"].clear()  # multiprocessing would wait for them at the end
    server = _server()
    if server._forkserver_pid is not None:
        server._lock = threading.RLock()
        os.close(server._forkserver_alive_fd)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_descriptors: dict[str, int] = {}
"""Of each address that this module made."""


def close_address(address: str) -> None:
    """Give up a server's address."""
    descriptor = _descriptors.pop(address, None)
    if descriptor is not None:
        os.close(descriptor)
    else:
        with contextlib.suppress(OSError):
            os.unlink(address)


@contextlib.contextmanager
def _folder_for_the_socket() -> Iterator[str | None]:
    """Make multiprocessing create its socket in a folder that does not outlive the block."""
    if not _nameless_sockets_work():
        yield None
        return
    config: Any = vars(process.current_process())["_config"]
    before = config.get("tempdir")
    real = tempfile.mkdtemp(prefix="emu-socket-")
    descriptor = os.open(real, os.O_PATH | os.O_CLOEXEC)
    # Not by its name, as the address of a socket has room for a hundred characters only.
    config["tempdir"] = folder = f"/proc/self/fd/{descriptor}"
    try:
        yield folder
    finally:
        os.close(descriptor)
        if before is None:
            del config["tempdir"]
        else:
            config["tempdir"] = before
        shutil.rmtree(real, ignore_errors=True)


def _forget_name(folder: str) -> None:
    """Reach the server through a descriptor from now on."""
    server = _server()
    address = server._forkserver_address
    if address is not None and os.path.dirname(address) == folder:
        server._forkserver_address = _without_name(address)


def _without_name(address: str) -> str:
    descriptor = os.open(address, os.O_PATH | os.O_CLOEXEC)
    nameless = f"/proc/self/fd/{descriptor}"
    _descriptors[nameless] = descriptor
    return nameless


def _nameless_sockets_work() -> bool:
    """Return whether this system can; not every one that looks like Linux can, so it is tried once."""
    global _they_work
    if _they_work is None:
        _they_work = False
        if system.LINUX and hasattr(os, "O_PATH"):
            with contextlib.suppress(OSError):
                _try_nameless_socket()
                _they_work = True
    return _they_work


_they_work: bool | None = None


def _try_nameless_socket() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="emu-socket-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX) as client,
    ):
        directory = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{directory}/s")
        finally:
            os.close(directory)
        listener.listen()
        nameless = _without_name(os.path.join(folder, "s"))
        try:
            os.unlink(os.path.join(folder, "s"))
            client.settimeout(1.0)
            client.connect(nameless)
        finally:
            close_address(nameless)
