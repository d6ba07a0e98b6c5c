"""Nodes of `emu run torchrun --nnodes N`: how they meet, what each starts, and how they learn of the end; with a launcher that only says."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emu.comm.errors import ArgumentError, CommError, HostsError
from emu.commands import torchrun_nodes
from emu.commands.torchrun_nodes import Nodes, nodes_of_environment, start_on_nodes

LAUNCHER = """#!{python}
import pathlib, sys
here = pathlib.Path(__file__).parent
(here / "options").write_text(" ".join(sys.argv[1:]))
count = int(sys.argv[sys.argv.index("-n") + 1])
if {says}:
    for number in range(count):
        print("HYDRA_LAUNCH:", here / "hydra_pmi_proxy", "--control-port elsewhere:4711 --proxy-id", number)
    print("HYDRA_LAUNCH_END", flush=True)
print("what the program prints", flush=True)
sys.exit({status})
"""
PROXY = """#!{python}
import pathlib, sys
here = pathlib.Path(__file__).parent
(here / ("proxy" + sys.argv[-1])).write_text(" ".join(sys.argv[1:]))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what makes a launcher that says what it would start."""

    def make(says: bool = True, status: int = 0) -> Path:
        for name, text in (("mpiexec", LAUNCHER), ("hydra_pmi_proxy", PROXY)):
            path = tmp_path / name
            path.write_text(text.format(python=sys.executable, says=says, status=status))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(torchrun_nodes, "find_mpiexec", lambda: str(tmp_path / "mpiexec"))
        return tmp_path

    return make


class Node(threading.Thread):
    """A node of a run."""

    def __init__(self, nodes: Nodes, words: tuple[str, ...] = ("script.py",)) -> None:
        super().__init__(daemon=True)
        self.nodes, self.words = nodes, words
        self.found: int | CommError | None = None
        self.notes: list[str] = []
        self.start()

    def run(self) -> None:
        try:
            self.found = start_on_nodes(self.nodes, self.words, self.notes.append)
        except CommError as error:
            self.found = error

    def end(self) -> int | CommError | None:
        self.join(60)
        assert not self.is_alive()
        return self.found


def of(count: int, rank: int | None, port: int, run: str = "none", timeout: float = 30.0) -> Nodes:
    return Nodes(count, rank, ("127.0.0.1", port), run, timeout)


@pytest.mark.parametrize("is_ranked", [True, False])
def test_each_node_starts_its_part_and_learns_the_status(
    is_ranked: bool, launcher: Any, capfdbinary: Any
) -> None:
    folder, port = launcher(status=3), free_port()
    nodes = [Node(of(3, rank if is_ranked else None, port)) for rank in (2, 1, 0)]
    assert [node.end() for node in nodes] == [3, 3, 3]
    assert capfdbinary.readouterr().out == b"what the program prints\n"
    said = (folder / "options").read_text()
    hosts = "127.0.0.1,127.0.0.2,127.0.0.3"  # one host is never named twice
    assert said.startswith(
        f"-launcher manual -hosts {hosts} -n 3 -ppn 1 {sys.executable} -m emu run"
    )
    assert said.endswith("run script.py")
    parts = sorted((folder / f"proxy{n}").read_text() for n in range(3))
    assert parts == [
        "--control-port 127.0.0.1:4711 --proxy-id 1",  # as the node has reached the first one
        "--control-port 127.0.0.1:4711 --proxy-id 2",
        "--control-port elsewhere:4711 --proxy-id 0",
    ]


@pytest.mark.parametrize(
    ("other", "words", "message"),
    [
        (of(3, 1, 0), ("script.py",), "nodes must be that of the first node, 2, but got 3"),
        (
            of(2, 1, 0, "b"),
            ("script.py",),
            "run must be that of the first node, 'none', but got 'b'",
        ),
        (of(2, 1, 0), ("other.py",), "command must be that of the first node"),
        (of(2, 7, 0), ("script.py",), r"node_rank must be in \[1, 1\], but got 7"),
    ],
)
def test_a_node_that_does_not_fit_is_refused_and_the_others_wait_for_the_right_one(
    other: Nodes, words: tuple[str, ...], message: str, launcher: Any
) -> None:
    launcher()
    port = free_port()
    first = Node(of(2, 0, port))
    wrong = Node(other._replace(address=("127.0.0.1", port)), words)
    error = wrong.end()
    assert isinstance(error, ArgumentError)
    with pytest.raises(ArgumentError, match=message):
        raise error
    assert Node(of(2, 1, port)).end() == first.end() == 0
    assert any("was refused" in note for note in first.notes)


def test_a_number_that_has_come_already_is_refused(launcher: Any) -> None:
    launcher()
    port = free_port()
    first, one = Node(of(3, 0, port)), Node(of(3, 1, port))
    for _ in range(200):
        again = Node(of(3, 1, port)).end()  # it or the other comes first
        if isinstance(again, ArgumentError):
            break
    with pytest.raises(ArgumentError, match="node_rank must be another for each node, but 1 has"):
        raise again  # type: ignore[misc]
    assert Node(of(3, 2, port)).end() == one.end() == first.end() == 0


def test_what_is_no_node_and_nodes_that_have_gone_are_passed_over(launcher: Any) -> None:
    launcher()
    port = free_port()
    first = Node(of(3, 0, port))
    said = {"emu": 1, "run": "none", "nodes": 3, "rank": 1}
    said["command"] = [sys.executable, "-m", "emu", "run", "script.py"]
    for line in (b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", json.dumps(said).encode() + b"\n"):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(line)
                break
            except ConnectionRefusedError:
                continue  # it does not listen yet
    nodes = [Node(of(3, 2, port))]
    while True:  # the place of the one that has gone may be free only when another comes
        one = Node(of(3, 1, port))
        one.join(0.3)
        if one.is_alive() or not isinstance(one.found, ArgumentError):
            break
    assert [node.end() for node in (first, one, *nodes)] == [0, 0, 0]


def test_a_launcher_that_does_not_say_what_it_starts(launcher: Any) -> None:
    launcher(says=False, status=1)
    port = free_port()
    for node in [Node(of(2, rank, port)) for rank in (0, 1)]:
        error = node.end()
        assert isinstance(error, ArgumentError)
        assert "does not say what it would start on other hosts" in str(error)


def test_nodes_that_do_not_come_are_told_of(launcher: Any) -> None:
    launcher()
    port = free_port()
    first = Node(of(4, 0, port, timeout=3.0))
    one = Node(of(4, 1, port, timeout=30.0))
    with pytest.raises(HostsError, match=f"2 of 4 nodes have come to 127.0.0.1:{port} after 3 s"):
        raise first.end()  # type: ignore[misc]
    assert first.notes == [f"2 of 4 nodes have come to 127.0.0.1:{port} yet"]
    with pytest.raises(HostsError, match="has ended before all had come"):
        raise one.end()  # type: ignore[misc]
    alone = Node(of(2, 1, port, timeout=0.3))
    with pytest.raises(HostsError, match=r"the first node must listen at .* after 0\.3 s"):
        raise alone.end()  # type: ignore[misc]


def test_a_port_that_is_taken(launcher: Any) -> None:
    launcher()
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(HostsError, match=f"node 0 must listen at port {port}, but cannot"):
            raise Node(of(2, 0, port)).end()  # type: ignore[misc]


def test_without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchrun_nodes, "find_mpiexec", lambda: None)
    with pytest.raises(ArgumentError, match="nnodes must be 1 without mpiexec"):
        start_on_nodes(of(2, 0, 1), ("script.py",), print)


@pytest.mark.parametrize("part", [None, [], ["rm", "-r"], [3], "hydra_pmi_proxy"])
def test_what_a_first_node_says_is_checked(part: object, launcher: Any) -> None:
    launcher()
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = Node(of(2, 1, server.getsockname()[1]))
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(json.dumps({"arguments": part}).encode() + b"\n")
            with pytest.raises(HostsError, match="the first node must say what to start"):
                raise node.end()  # type: ignore[misc]


ENVIRONMENT = {"MASTER_ADDR": "a", "MASTER_PORT": "7", "RANK": "1", "WORLD_SIZE": "3"}


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ({}, Nodes(3, 1, ("a", 7), "none", 5.0)),
        ({"TORCHELASTIC_RUN_ID": "job"}, Nodes(3, 1, ("a", 7), "job", 5.0)),
        ({"TORCHELASTIC_RUN_ID": "emu-12"}, None),  # in a PE
        ({"WORLD_SIZE": "1"}, None),
        ({"WORLD_SIZE": "x"}, None),
        ({"MASTER_ADDR": ""}, None),
        ({"RANK": "-1"}, None),
    ],
)
def test_the_environment_names_nodes(
    change: dict[str, str], nodes: Nodes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (ENVIRONMENT | change).items():
        monkeypatch.setenv(name, value)
    assert nodes_of_environment(5.0) == nodes
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    if nodes is not None:
        with pytest.raises(ArgumentError, match="but LOCAL_WORLD_SIZE is 2"):
            nodes_of_environment(5.0)


def test_under_torchrun_its_store_says_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("torch.distributed")
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"}
    given |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "r"}
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        found.append(nodes_of_environment(5.0))
    assert found[0] is not None
    assert found[0] == found[1]._replace(rank=0)  # type: ignore[union-attr]
    assert found[0].address[1] not in (0, store.port)
    started = torchrun_nodes._environment()
    assert "MASTER_PORT" not in started  # which is torchrun's
    assert started["MASTER_ADDR"] == "127.0.0.1"
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    assert torchrun_nodes._environment()["MASTER_PORT"] == str(store.port)


PROGRAM = """
import emu
world = emu.world()
print("sum", int(world.all_reduce([world.my_pe])[0]), "of", world.n_pes)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_script", [True, False])
def test_two_nodes_are_one_world(is_script: bool, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    pytest.importorskip("torch")
    if torchrun_nodes.find_mpiexec() is None:
        pytest.skip("there is no mpiexec")
    script, port = tmp_path / "program.py", free_port()
    script.write_text(PROGRAM)
    emu = [sys.executable, "-m", "emu", "run", "--no-prefix"]
    nodes = []
    for rank in range(2):
        variables = {**os.environ, **ENVIRONMENT, "WORLD_SIZE": "2", "RANK": str(rank)}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        words = ["--pes-per-node", "2", str(script)]
        if is_script:
            variables = dict(os.environ)
            said = f"--nnodes 2 --node-rank {rank} --nproc-per-node 2 --master-port {port}"
            words = ["torchrun", *said.split(), str(script)]
        node = subprocess.Popen([*emu, *words], env=variables, text=True, stdout=subprocess.PIPE)
        nodes.append(node)
    outputs = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert outputs[0].splitlines() == ["sum 6 of 4"] * 4
    assert outputs[1] == ""
