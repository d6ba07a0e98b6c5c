"""A fork server of a session's own, which has loaded what all PEs of the session need.

It is forked from the common fork server, calls one function, and is a fork server from then on: the PEs that are
forked from it have what that function loaded, each without loading it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver, reduction
from typing import Any

from emu.comm.process import serving
from emu.comm.process.fork_server import END_S, LOST, ForkServer, Lazy, signal_name
from emu.comm.process.payload import RemoteCall
from emu.comm.process.pe import Start
from emu.kernels.core.environment import THREAD_VARIABLES

_LOAD_S = 20.0
"""Seconds after which PEs are started without what was to be loaded."""


@dataclass(frozen=True)
class _Orders:
    """The start message of the server."""

    call: RemoteCall
    listener: Any
    alive: Any
    ready: Any
    environment: dict[str, str]
    key: bytes | None


class LoadedServer(ForkServer):
    """A running server; make it with :func:`loaded_server`."""

    def __init__(self, common: ForkServer, call: RemoteCall) -> None:
        self._context = common._context
        self._common = common
        listener, self._address = serving.new_listener()
        alive, self._alive = os.pipe()
        self._key = serving.new_key()
        receive, send = common.pipe()
        self._process: Any = self._context.Process(
            target=_serve,
            args=(Lazy(lambda: _orders(call, listener.fileno(), alive, send, self._key)),),
            name="emu-loaded-server",
            daemon=True,
        )
        try:
            with _no_main():
                self._process.start()
            self.pid: int | None = self._process.pid
            send.close()
            self.is_ready = bool(receive.poll(_LOAD_S)) and _received(receive)
        except BaseException:
            self.close()
            raise
        finally:
            listener.close()
            os.close(alive)
            send.close()
            receive.close()

    def start(self, pe: int, make: Callable[[], Start]) -> Any:
        """Start one PE, as a fork of this server."""
        with serving.through(self._address, self._alive, self._key):
            return super().start(pe, make)

    def how_it_ended(self, exitcode: int | None = LOST) -> str | None:
        """Return how the server ended, if that is why a PE seems to have ended with ``exitcode``."""
        how = self._common.how_it_ended(exitcode)
        if how is not None or exitcode != LOST:
            return how
        self._process.join(END_S)
        code = self._process.exitcode
        if code is None:
            return None
        server = f"the fork server of the session (process {self.pid})"
        if code < 0:
            return f"{server} was killed by {signal_name(-code)}"
        return f"{server} ended with exit status {code}"

    def close(self) -> None:
        """Have the server end when its PEs have."""
        if self._address:
            os.close(self._alive)
            serving.close_address(self._address)
            self._address = ""


def loaded_server(common: ForkServer, call: RemoteCall) -> ForkServer:
    """Return a server whose PEs have what a call loads; the common one if it fails: then PEs tell why.

    Args:
        common: The common server.
        call: What to call once.
    """
    try:
        server = LoadedServer(common, call)
    except (OSError, EOFError):
        return common
    if server.is_ready:
        return server
    server.close()
    server._process.kill()
    return common


def _received(receive: Any) -> bool:
    try:
        return bool(receive.recv())
    except (EOFError, OSError):
        return False


def _orders(call: RemoteCall, listener: int, alive: int, ready: Any, key: bytes | None) -> _Orders:
    duplicate = reduction.DupFd
    return _Orders(call, duplicate(listener), duplicate(alive), ready, dict(os.environ), key)


@contextlib.contextmanager
def _no_main() -> Iterator[None]:
    """Hide the main module: the server is not to run the script, each PE does so itself."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(orders: _Orders) -> None:
    """Load, then be a fork server until all that can ask for a process have ended."""
    # PEs get the launcher's environment, too; a folder that it names may not be that of the common server.
    os.environ.clear()
    os.environ.update(orders.environment)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    listener, alive = orders.listener.detach(), orders.alive.detach()
    try:
        function, args, kwargs = orders.call.load()
        function(*args, **kwargs)
    except BaseException:  # noqa: BLE001 - the PEs will meet it, and tell
        orders.ready.close()
        return
    gc.collect()
    gc.freeze()  # as in the common server: a collection in a PE would copy every page
    orders.ready.send(True)
    orders.ready.close()
    serve: Any = forkserver.main
    serve(listener, alive, [], **_keyed(orders.key))


def _keyed(key: bytes | None) -> dict[str, int]:
    if key is None:
        return {}
    receive, send = os.pipe()
    os.write(send, key)
    os.close(send)
    return {"authkey_r": receive}
