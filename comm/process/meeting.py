"""A World of processes that find each other by themselves, through anything that can carry a text between them.

One of them makes the World and gets a text, its address; each becomes a PE by that. Nobody knows beforehand which
processes they will be, and none need be another's child. A further process (:mod:`.keeper`) keeps the memory and
watches the PEs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from multiprocessing import util
from typing import Any

from emu.comm.errors import CommError, PlatformError
from emu.comm.layout import B_STATE, DEAD, H_MAGIC, MAGIC, Layout
from emu.comm.memory.segment import Segment
from emu.comm.process.invitation import Invitation
from emu.comm.process.launch_options import DEFAULT_HEAP_SIZE
from emu.comm.process.unlaunched import Unlaunched
from emu.comm.process.watching import FAILED
from emu.kernels.core import environment
from emu.kernels.core.environment import THREAD_VARIABLES

_START = """\
import json, os, sys
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
null = os.open(os.devnull, os.O_RDWR)
for descriptor in 0, 1, 2:
    os.dup2(null, descriptor)
os.chdir("/")
sys.path[:] = json.loads(sys.argv[1])
from emu.comm.process.keeper import main
main(int(sys.argv[2]), sys.argv[3])
"""
"""Program of the keeper. It forks first of all, so that it is nobody's child: whoever has one may wait for that."""


class WorldOverError(CommError):
    """A World is not there any more."""


def host(n_pes: int, timeout: float | None = None) -> str:
    """Make a World without PEs; it lasts until all have ended. Its links are what the environment says.

    Args:
        n_pes: Number of PEs.
        timeout: Seconds without progress after which waiting PEs get a DeadlockError. So long a PE may also come
            after the others have ended. Default: what the environment says, or that of a launch.

    Returns:
        The address by which processes of the same user on this machine find it.

    Raises:
        ArgumentError: A variable of the environment breaks a rule.
        PlatformError: This is not Linux.
        SymmetricMemoryError: There is not enough shared memory.
        CommError: The process that keeps it could not be started.
    """
    if sys.platform != "linux":
        raise PlatformError(
            "processes that were not started by emu or torch.multiprocessing.spawn become PEs on Linux only, but "
            f"this is {sys.platform}"
        )
    options = Unlaunched.from_environment()
    timeout = options.timeout if timeout is None else timeout
    layout = Layout(n_pes=n_pes, heap_bytes=DEFAULT_HEAP_SIZE, zones=environment.red_zones())
    segment = Segment.create(layout, link=options.link)
    try:
        given: dict[str, Any] = {"layout": dataclasses.asdict(layout), "timeout": timeout}
        keeper = _start_keeper(segment.fd, json.dumps(given))
        return json.dumps({**given, "keeper": keeper, "descriptor": segment.fd})
    finally:
        segment.close()


def _start_keeper(descriptor: int, text: str) -> int:
    """Start the process that keeps a World; return its number."""
    folders = [entry or os.getcwd() for entry in sys.path]
    words = [sys.executable, "-I", "-S", "-c", _START, json.dumps(folders), str(descriptor), text]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=[descriptor],
            start_new_session=True,
            check=True,
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise CommError(
            f"the process that watches the PEs could not be started: {error}"
        ) from error


def find(address: str) -> Segment:
    """Return the shared memory of a World.

    Args:
        address: What :func:`host` has returned, in this process or another.

    Raises:
        WorldOverError: It is not there, or not any more.
        CommError: The address is of something else.
    """
    given = json.loads(address)
    path = f"/proc/{given['keeper']}/fd/{given['descriptor']}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise WorldOverError(
            "the World must be there, on this machine and made by the same user, but its keeper, process "
            f"{given['keeper']}, is not to be found: it has ended as all PEs had, or the text is an old one ({error})"
        ) from error
    try:
        segment = Segment(descriptor, Layout(**given["layout"]))
        if segment.header[H_MAGIC] != MAGIC:
            raise ValueError("it holds something else")
    except (OSError, ValueError) as error:
        os.close(descriptor)
        raise CommError(f"{path} must be the memory of a World, but: {error}") from error
    return segment


class Membership:
    """This process's place in a World that it has found, until it leaves, or its program ends.

    Attributes:
        world: The World, which :func:`emu.world` gives, too.
    """

    def __init__(self, segment: Segment, pe: int) -> None:
        self._segment = segment
        self._pe = pe
        self._pid = os.getpid()
        self._invitation = Invitation(segment)
        self.world = self._invitation.accept(pe)
        # multiprocessing calls it in its own processes, which end without atexit, as well as in others.
        self._at_end = util.Finalize(None, self._end, exitpriority=0)

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that has joined, not one that was forked from it."""
        return os.getpid() == self._pid

    def leave(self) -> None:
        """End the PE; what it has deferred takes place before."""
        self._at_end.cancel()
        try:
            self._invitation.leave(self._pe)
        except BaseException as error:
            self._fail(error)
            raise
        self._segment.close()

    def _end(self) -> None:
        """End the PE as the program of this process ends."""
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.leave()
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the PE with an exception: waits of the others end with its text."""
        self._segment.write_place(self._pe, f"{FAILED}{_describe(error)}")
        self._segment.block(self._pe)[B_STATE] = DEAD
        self._segment.close()


def _describe(error: BaseException) -> str:
    """Describe an exception, and what it came from if it is a mere exit."""
    if isinstance(error, SystemExit):
        cause = error.__cause__ or error.__context__
        return f"exit status {error.code}" + (f" after {_describe(cause)}" if cause else "")
    text = str(error)
    return type(error).__name__ + (f": {text}" if text else "")
