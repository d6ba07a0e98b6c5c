"""``emu run torchrun --nnodes N``: nodes that find each other as torchrun's do, at an address, become the hosts of one World.

MPI carries a World over several hosts, so MPI's launcher must start its processes. By itself it would reach the other hosts by ssh. Here
somebody has started a command on each of them already, so the first node asks the launcher what it would start there (Hydra's ``-launcher manual``), and
gives every other node its part, over the connection by which that has come. Each runs the launcher's proxy that is installed beside
its own mpiexec. When all is over it learns how.

A node says a JSON object when it comes, and gets one that says what to run or what is wrong, and one with the exit status at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from emu.comm.errors import ArgumentError, HostsError
from emu.commands.run_hosts import find_mpiexec

_LAUNCH, _END = b"HYDRA_LAUNCH: ", b"HYDRA_LAUNCH_END"
_OWN_RUN = "emu-"
"""How TORCHELASTIC_RUN_ID begins in PEs."""
_PORT_KEY = "emu/nodes/port"
_LONGEST = 1 << 20
"""Bytes of what a node says, at most."""
_AGAIN_S, _PATIENT_S, _ANSWER_S, _GRACE_S = 0.1, 2.0, 30.0, 3.0
"""Between two attempts to connect; until a user is told that nodes are missing; until what has come says what it wants, or a launcher what to
start; until a launcher is ended that does not end when a node has."""


class Nodes(NamedTuple):
    """What the nodes of a run know of each other before they meet.

    Attributes:
        total: How many there are.
        rank: Number of this node; None: in the order in which they come, and the first is who can listen at the address.
        address: Host and port where the first one listens.
        run: A name for the run, the same for all.
        timeout: Seconds until all must have come.
    """

    total: int
    rank: int | None
    address: tuple[str, int]
    run: str
    timeout: float


def nodes_of_environment(timeout: float) -> Nodes | None:
    """Return the nodes that the environment names, as torchrun's does, or that of a cluster which starts one process on each; None: it names none.

    Args:
        timeout: Seconds until all must have come.

    Raises:
        ArgumentError: There are several processes on a node.
        HostsError: torchrun's store does not answer.
    """
    there = os.environ
    named = all(there.get(name) for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"))
    run = there.get("TORCHELASTIC_RUN_ID", "none")
    if not named or run.startswith(_OWN_RUN):  # this is in a PE
        return None
    numbers = [there[name] for name in ("MASTER_PORT", "RANK", "WORLD_SIZE")]
    if not all(number.isdecimal() for number in numbers) or int(there["WORLD_SIZE"]) < 2:
        return None
    if there.get("LOCAL_WORLD_SIZE", "1") != "1":
        raise ArgumentError(
            f"one process must be started on each node with --pes-per-node, but LOCAL_WORLD_SIZE is {there['LOCAL_WORLD_SIZE']}"
        )
    port, rank, count = map(int, numbers)
    address = there["MASTER_ADDR"], port
    if _has_store():
        address = there["MASTER_ADDR"], _agreed_port(address, rank)
    return Nodes(count, rank, address, run, timeout)


def _has_store() -> bool:
    """Return whether torchrun itself listens at the port that the environment names."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _environment() -> dict[str, str]:
    """Return the environment of what is started here: a port that torchrun has is not the program's to listen at."""
    taken = ("MASTER_PORT",) if _has_store() else ()
    return {name: value for name, value in os.environ.items() if name not in taken}


def _agreed_port(store_address: tuple[str, int], rank: int) -> int:
    """Return a port that is free on the first node, by the store that torchrun serves."""
    import torch.distributed as dist

    try:
        store: Any = getattr(dist, "TCPStore")(*store_address, is_master=False)  # noqa: B009 - not in its stubs
        if rank == 0:
            with socket.create_server(("", 0)) as probe:
                store.set(_PORT_KEY, str(probe.getsockname()[1]))
        return int(store.get(_PORT_KEY))
    except (RuntimeError, ValueError) as error:
        host, port = store_address
        raise HostsError(
            f"torchrun's store at {host}:{port} does not answer: {str(error).splitlines()[0]}"
        ) from None


def start_on_nodes(nodes: Nodes, words: Sequence[str], note: Callable[[str], None]) -> int:
    """Run a command of ``emu run`` on all nodes, and return its exit status; each node calls this.

    Args:
        nodes: The nodes.
        words: The command line behind ``emu run``, the same on each node.
        note: Tells the user something.

    Raises:
        ArgumentError: There is no launcher of MPI that can do it, or nodes do not fit each other.
        HostsError: Not all nodes have come, or one was lost.
    """
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise ArgumentError(
            "nnodes must be 1 without mpiexec on the PATH or beside Python: pip install 'tile-emu[mpi]'"
        )
    command = [sys.executable, "-m", "emu", "run", *words]
    listener = _listen(nodes)
    if listener is None:
        return _follow(nodes, command, mpiexec)
    meeting = _Meeting(nodes, command, note)
    try:
        with listener:
            peers = meeting.meet(listener)
        return _lead(nodes, command, mpiexec, peers)
    finally:
        meeting.close()


# --- meeting ---------------------------------------------------------------------------------


def _listen(nodes: Nodes) -> socket.socket | None:
    """Return a listening socket if this node is the first; else None."""
    host, port = nodes.address
    if nodes.rank is not None:
        if nodes.rank:
            return None
        host = ""  # the others may know this machine by several names
    try:
        return socket.create_server((host, port))
    except OSError as error:
        if nodes.rank is None:
            return None  # another machine's, or another node listens there already
        raise HostsError(
            f"node 0 must listen at port {port}, but cannot: {error.strerror}"
        ) from None


class _Peer:
    """Another node, as the first one sees it."""

    def __init__(self, connection: socket.socket, said: dict[str, Any]) -> None:
        self.connection = connection
        self.rank: int | None = said.get("rank")
        self.host: str = connection.getpeername()[0]

    def say(self, **what: Any) -> None:
        with contextlib.suppress(OSError):  # it may be gone, which MPI's launcher tells
            self.connection.sendall(json.dumps(what).encode() + b"\n")

    def close(self) -> None:
        self.connection.close()


class _Meeting:
    """Waits until all other nodes have come, and refuses those that do not fit."""

    def __init__(self, nodes: Nodes, command: list[str], note: Callable[[str], None]) -> None:
        self._nodes, self._command, self._note = nodes, command, note
        self._peers: list[_Peer] = []

    def meet(self, listener: socket.socket) -> list[_Peer]:
        """Return the others, in the order of their numbers."""
        started, told = time.monotonic(), False
        while len(self._peers) < self._nodes.total - 1:
            waited = time.monotonic() - started
            if waited > self._nodes.timeout:
                raise HostsError(f"{self._missing()} after {self._nodes.timeout:g} s")
            if waited > _PATIENT_S and not told:
                self._note(f"{self._missing()} yet")
                told = True
            listener.settimeout(0.5)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            self._admit(connection)
            self._drop_lost()
        self._peers.sort(key=lambda peer: peer.rank or 0)  # of those without one the order stays
        return self._peers

    def _drop_lost(self) -> None:
        for peer in [peer for peer in self._peers if _is_over(peer.connection)]:
            peer.close()
            self._peers.remove(peer)

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers:
            peer.close()

    def _missing(self) -> str:
        come, (host, port) = len(self._peers) + 1, self._nodes.address
        return f"{come} of {self._nodes.total} nodes have come to {host}:{port}"

    def _admit(self, connection: socket.socket) -> None:
        said = _hear(connection, _PATIENT_S)
        if said is None or said.get("emu") != 1:
            connection.close()  # something else that has tried the port
            return
        wrong = self._wrong(said)
        peer = _Peer(connection, said)
        if wrong:
            peer.say(error=wrong)
            peer.close()
            self._note(f"node {said.get('rank')} of {peer.host} was refused: {wrong}")
            return
        self._peers.append(peer)

    def _wrong(self, said: dict[str, Any]) -> str:
        """Return in what a node does not fit; nothing: it does."""
        nodes = self._nodes
        mine = {"run": nodes.run, "nodes": nodes.total, "command": self._command}
        for name, value in mine.items():
            if said.get(name) != value:
                return (
                    f"{name} must be that of the first node, {value!r}, but got {said.get(name)!r}"
                )
        rank = said.get("rank")
        if (rank is None) != (nodes.rank is None):
            return "all nodes must have a node_rank, or none"
        if rank is not None and not (isinstance(rank, int) and 0 < rank < nodes.total):
            return f"node_rank must be in [1, {nodes.total - 1}], but got {rank!r}"
        if rank is not None and any(peer.rank == rank for peer in self._peers):
            return f"node_rank must be another for each node, but {rank} has come already"
        return ""


def _hear(connection: socket.socket, timeout: float | None) -> dict[str, Any] | None:
    """Return the object that is said next; None: the connection has ended, or it is none."""
    connection.settimeout(timeout)
    line = bytearray()
    try:
        while not line.endswith(b"\n"):
            part = connection.recv(1)
            if not part or len(line) >= _LONGEST:
                return None
            line += part
        found = json.loads(line)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


# --- the first node --------------------------------------------------------------------------


def _lead(nodes: Nodes, command: list[str], mpiexec: str, peers: list[_Peer]) -> int:
    """Start the launcher, give each node its part, and return the exit status."""
    hosts = ",".join(_labels([peer.host for peer in peers]))
    options = ["-launcher", "manual", "-hosts", hosts, "-n", str(nodes.total), "-ppn", "1"]
    launcher = subprocess.Popen(  # without a buffer: what stands behind its lines is the program's
        [mpiexec, *options, *command],
        bufsize=0,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert launcher.stdout is not None
    proxy: subprocess.Popen[bytes] | None = None
    try:
        parts = _parts(launcher.stdout, nodes.total)
        if parts is None:
            wrong = (
                f"nnodes must be 1 with {mpiexec}, which does not say what it would start on other hosts, as MPICH's does; "
                "start `emu run --pes-per-node N` by mpiexec or srun"
            )
            for peer in peers:
                peer.say(error=wrong)
            raise ArgumentError(wrong)
        for peer, part in zip(peers, parts[1:], strict=True):
            peer.say(arguments=part)
        proxy = subprocess.Popen(parts[0], env=_environment(), stdin=subprocess.DEVNULL)
        lost = _relay(launcher, launcher.stdout, peers)
        status = launcher.wait()
    finally:
        launcher.stdout.close()
        for process in (launcher, proxy):
            if process is not None:
                _end(process)
    for peer in peers:
        peer.say(status=status)
    if lost:
        raise HostsError(f"the node at {lost} was lost")
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that is about to end, and end it if it does not."""
    try:
        process.wait(_PATIENT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def _relay(launcher: subprocess.Popen[bytes], output: IO[bytes], peers: list[_Peer]) -> str:
    """Show what a launcher prints until it ends; return where a node was that has ended before it."""
    waiting = {peer.connection.fileno(): peer for peer in peers}
    source, lost, since = output.fileno(), "", 0.0
    while True:
        ready, _, _ = select.select([source, *waiting], [], [], 1.0)
        for descriptor in ready:
            if descriptor != source and _is_over(waiting[descriptor].connection):
                lost, since = waiting.pop(descriptor).host, time.monotonic()
        if source in ready:
            part = os.read(source, 1 << 16)
            if not part:
                return lost
            sys.stdout.buffer.write(part)
            sys.stdout.flush()
        if lost and time.monotonic() - since > _GRACE_S:  # MPI did not notice
            launcher.terminate()


def _is_over(connection: socket.socket) -> bool:
    """Return whether the other end of a connection that has nothing to say is gone."""
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _labels(hosts: Sequence[str]) -> list[str]:
    """Return a name for each node, which the launcher takes for another host: it would start both processes of one name together."""
    names = ["127.0.0.1"]
    for host in hosts:
        own = [f"127.0.0.{n}" for n in range(2, len(hosts) + 2)]
        names.append(next(name for name in (host, *own) if name not in names))
    return names


def _parts(output: IO[bytes], count: int) -> list[list[str]] | None:
    """Return the command lines that a launcher wants to have run, by node; None: it does not say."""
    parts: list[list[str]] = []
    for line in output:
        if line.startswith(_END):
            break
        if line.startswith(_LAUNCH):
            parts.append(line[len(_LAUNCH) :].decode().split())
    return parts if len(parts) == count and all("proxy" in part[0] for part in parts) else None


# --- the others ------------------------------------------------------------------------------


def _follow(nodes: Nodes, command: list[str], mpiexec: str) -> int:
    """Go to the first node, run what it says, and return the exit status."""
    host, port = nodes.address
    with _connect(nodes) as connection:
        _Peer(connection, {"rank": nodes.rank}).say(
            emu=1, run=nodes.run, nodes=nodes.total, rank=nodes.rank, command=command
        )
        said = _hear(connection, nodes.timeout + _ANSWER_S)
        if said is None:
            raise HostsError(f"the first node, at {host}:{port}, has ended before all had come")
        if "error" in said:
            raise ArgumentError(str(said["error"]))
        words = _checked_part(said.get("arguments"))
        proxy = Path(mpiexec).with_name(Path(words[0]).name)
        if not proxy.exists():
            raise HostsError(
                f"mpiexec must be of the first node's MPI, but there is no {proxy} here"
            )
        reached = connection.getpeername()[0]
        process = subprocess.Popen(
            [str(proxy), *_with_host(words[1:], reached)],
            env=_environment(),
            stdin=subprocess.DEVNULL,
        )
        try:
            ended = _hear(connection, None)
        finally:
            _end(process)
        if ended is None or not isinstance(ended.get("status"), int):
            raise HostsError(f"the first node, at {host}:{port}, was lost")
        return int(ended["status"])


def _connect(nodes: Nodes) -> socket.socket:
    deadline = time.monotonic() + nodes.timeout
    while True:
        try:
            return socket.create_connection(nodes.address, timeout=5)
        except OSError as error:
            if time.monotonic() > deadline:
                host, port = nodes.address
                raise HostsError(
                    f"the first node must listen at {host}:{port}, but after {nodes.timeout:g} s it does not: {error}"
                ) from None
        time.sleep(_AGAIN_S)


def _checked_part(words: object) -> list[str]:
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) for word in words)
        or "proxy" not in Path(words[0]).name
    ):
        raise HostsError(f"the first node must say what to start, but said {words!r:.200}")
    return words


def _with_host(words: Sequence[str], host: str) -> list[str]:
    """Return a proxy's options with the host by which this node has reached the first one: that may name itself otherwise."""
    found = list(words)
    at = found.index("--control-port") + 1 if "--control-port" in found[:-1] else 0
    if at:
        port = found[at].rpartition(":")[2]
        found[at] = f"{host}:{port}"
    return found
