"""Teams: the processes of one contender, started, asked for rounds, and certain to end.

Nothing here can hang: every start and every question has a time-out, and a team is a session of its own
that is killed as a whole. What goes wrong becomes a :class:`TeamError` that says why.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE.parent / "peers"


class TeamError(Exception):
    """A contender could not be started, failed, or did not answer in time."""


class MissingError(TeamError):
    """A peer is not installed."""


def find_mpiexec() -> str:
    """Return the ``mpiexec`` beside this interpreter, else the one on the path.

    Raises:
        MissingError: mpi4py or mpiexec is not there.
    """
    _require("mpi4py")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise MissingError("mpiexec is not installed (pip install mpich)")
    return found


def _require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingError(f"{module} is not installed")


def environment() -> dict[str, str]:
    """Return this environment with the emu of this process on the path, last, and with bytecode kept on disk.

    Without bytecode, modules that pip has not installed are compiled in each process: 0.3 s of a start of emu.
    """
    spec = importlib.util.find_spec("emu")
    if spec is None or spec.origin is None:
        raise MissingError("emu is not installed")
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(spec.origin).parent.parent)]
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths)}


def over_link(link: str) -> str:
    """Return the kind of our PEs in a world with an emulated link, as ``emu run --link`` takes it."""
    return f"emu over {link}"


def balancing_link(nbytes: int, seconds: float, latency: str) -> str:
    """Return :func:`over_link` of a link that carries ``nbytes`` in ``seconds``, to two digits.

    Two digits, so that rows of about the same rate share a team.
    """
    rate = nbytes / seconds
    digits = 1 - math.floor(math.log10(rate))
    return over_link(f"{round(rate, digits):.0f}B/s,{latency}")


RECORDED = "emu recorded"
"""The kind of our PEs in a world whose events are recorded, in a file beside the team's socket."""


def on_hosts(hosts: int) -> str:
    """Return the kind of our PEs in a World over so many hosts, which are processes of mpiexec here."""
    return f"emu on {hosts} hosts"


def mpi_on_hosts(hosts: int) -> str:
    """Return the kind of MPI's ranks that take each other for ranks of so many hosts."""
    return f"mpi on {hosts} hosts"


_OVER_TCP = {"FI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi"}
"""What makes MPICH send by TCP, over the loopback device here, what is for another host."""


def _variables(kind: str) -> dict[str, str]:
    """Return the environment of a contender."""
    if kind.startswith("emu on "):
        return {**environment(), **_OVER_TCP}
    if kind.startswith("mpi on "):
        return {**environment(), **_OVER_TCP, "MPIR_CVAR_NUM_CLIQUES": kind.split()[2]}
    return environment()


def _command(kind: str, n: int, address: str) -> list[str]:
    python = sys.executable
    if kind.startswith("emu on "):
        hosts = kind.split()[2]
        each = str(n // int(hosts))
        script = str(HERE / "hosts_team.py")
        return [find_mpiexec(), "-n", hosts, python, script, address, each]
    if kind.startswith("mpi on "):
        script = str(PEERS / "mpi_hosts_worker.py")
        return [find_mpiexec(), "-n", str(n), python, script, address]
    if kind == RECORDED:
        return [python, str(HERE / "emu_team.py"), address, str(n), f"{address}.emutrace"]
    if kind == "emu" or kind.startswith("emu over "):
        return [python, str(HERE / "emu_team.py"), address, str(n), *kind.split()[2:]]
    if kind == "mpi":
        return [find_mpiexec(), "-n", str(n), python, str(PEERS / "mpi_worker.py"), address]
    if kind == "gloo":
        _require("torch")
        return [python, str(PEERS / "gloo_worker.py"), address, str(n)]
    return [python, str(PEERS / "mp_worker.py"), address, str(n)]


class Team:
    """``n`` processes of one contender.

    Args:
        kind: ``"emu"``, what :func:`over_link`, :func:`on_hosts` or :func:`mpi_on_hosts` returns, ``"mpi"``, ``"gloo"`` or ``"multiprocessing"``.
        n: Number of processes.
        timeout: Seconds after which a start or a question has failed.
    """

    def __init__(self, kind: str, n: int, timeout: float = 120.0) -> None:
        self.n = n
        self._name = f"{kind} of {n}"
        self._timeout = timeout
        self._links: dict[int, Connection] = {}
        self._folder = tempfile.mkdtemp(prefix="emu-bench-")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(kind)
        except BaseException:
            self.close()
            raise

    def _start(self, kind: str) -> None:
        address = os.path.join(self._folder, "s")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(self.n)
            listener.settimeout(0.2)
            with open(self._log, "wb") as log:
                self._process = subprocess.Popen(
                    _command(kind, self.n, address),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_variables(kind),
                    start_new_session=True,
                )
            deadline = time.monotonic() + self._timeout
            while len(self._links) < self.n:
                with contextlib.suppress(TimeoutError):
                    accepted, _ = listener.accept()
                    accepted.setblocking(True)
                    link = Connection(accepted.detach())
                    self._links[link.recv()] = link
                if self._process.poll() is not None:
                    raise TeamError(self._why(f"ended with {self._process.returncode} at start"))
                if time.monotonic() > deadline:
                    raise TeamError(self._why(f"had not started after {self._timeout:g} s"))

    @property
    def _log(self) -> str:
        return os.path.join(self._folder, "log")

    def _why(self, what: str) -> str:
        with open(self._log, errors="replace", encoding="utf-8") as log:
            lines = log.read().strip().splitlines()
        return f"{self._name} {what}" + (f": {lines[-1].strip()}" if lines else "")

    def ask(self, task: str, **arguments: Any) -> list[Any]:
        """Have every process do ``task``; return what each returned, in rank order.

        Raises:
            TeamError: One raised, ended, or took too long; the team is of no use afterwards.
        """
        if not self._links:
            raise TeamError(f"{self._name} failed before")
        try:
            for rank in range(self.n):
                self._links[rank].send((task, arguments))
            deadline = time.monotonic() + self._timeout
            return [self._reply(rank, deadline) for rank in range(self.n)]
        except (EOFError, OSError) as error:
            self._abandon()
            raise TeamError(self._why(f"ended in {task}")) from error
        except TeamError:
            self._abandon()
            raise

    def _reply(self, rank: int, deadline: float) -> Any:
        if not self._links[rank].poll(max(0.0, deadline - time.monotonic())):
            raise TeamError(f"{self._name}: rank {rank} did not answer within {self._timeout:g} s")
        state, value = self._links[rank].recv()
        if state == "error":
            raise TeamError(f"{self._name}: rank {rank}: {value.strip().splitlines()[-1]}")
        return value

    def seconds(self, task: str, calls: int, **arguments: Any) -> float:
        """Return the time from the first start to the last end among the processes that took part."""
        spans = [s for s in self.ask(task, calls=calls, **arguments) if s is not None]
        return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9

    def _abandon(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
        process = self._process
        if process is None:
            return
        # mpiexec cleans up after its ranks when it is asked to; whatever is left then is killed.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2.0)

    def close(self) -> None:
        """End the processes: by hanging up, and where that does not help, by force."""
        for link in self._links.values():
            link.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10.0)
        self._abandon()
        shutil.rmtree(self._folder, ignore_errors=True)


class Teams:
    """Teams by kind and size, started when first asked for; rows of one subject share them."""

    def __init__(self, without: frozenset[str], timeout: float) -> None:
        self._without = without
        self._timeout = timeout
        self._teams: dict[tuple[str, int], Team] = {}
        self._failed: dict[tuple[str, int], TeamError] = {}

    def check(self, peer: str) -> None:
        """Raise ``MissingError`` if ``peer`` is to be left out."""
        if peer in self._without:
            raise MissingError(f"{peer} is left out (--without)")

    def __call__(self, kind: str, n: int) -> Team:
        """Return the team; raise the same ``TeamError`` again if it could not be started."""
        self.check(kind)
        if (kind, n) in self._failed:
            raise self._failed[kind, n]
        if (kind, n) not in self._teams:
            try:
                self._teams[kind, n] = Team(kind, n, self._timeout)
            except TeamError as error:
                self._failed[kind, n] = error
                raise
        return self._teams[kind, n]

    def close(self) -> None:
        """End all."""
        while self._teams:
            self._teams.popitem()[1].close()


@functools.cache
def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
