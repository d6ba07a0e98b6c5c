"""`emu run torchrun`: what torchrun would start runs on PEs."""

from __future__ import annotations

import argparse

import pytest

from emu.comm.errors import ArgumentError
from emu.commands.torchrun import as_run, is_torchrun, words_of
from emu.commands.torchrun_nodes import Nodes

pytest.importorskip("torch")


def options(*words, module=False, n_pes=None):
    found = argparse.Namespace(n_pes=n_pes, module=None, script=None, arguments=[], devices=3)
    found.hosts = found.pes_per_node = None
    found.words = ["--no-prefix", *(["-m"] if module else []), *words]
    if module:
        found.module = list(words)
    else:
        found.script, *found.arguments = words
    return found


@pytest.mark.parametrize(
    ("words", "is_module"),
    [(("torchrun",), False), (("/bin/torchrun",), False), (("torch.distributed.run",), True)],
)
def test_the_script_of_torchrun_runs_on_as_many_pes_as_it_has_processes(words, is_module):
    rest = ("--standalone", "--nproc-per-node", "4", "train.py", "--epochs", "1")
    given = options(*words, *rest, module=is_module)
    assert is_torchrun(given)
    found = as_run(given, 3, 2)
    assert (found.n_pes, found.module, found.script) == (4, None, "train.py")
    assert found.arguments == ["--epochs", "1"]
    assert found.devices == 3


def test_a_module_and_words_for_the_number_of_processes_are_understood():
    for word, count in (("gpu", 3), ("npu", 3), ("auto", 3), ("cpu", 2)):
        found = as_run(options("torchrun", f"--nproc_per_node={word}", "-m", "a.b", "-x"), 3, 2)
        assert (found.n_pes, found.module) == (count, ["a.b", "-x"])


def test_what_one_launch_cannot_do_is_refused():
    for words, text in (
        (("--nnodes", "1:2", "a.py"), "nnodes must be one number in .*, but got '1:2'"),
        (("--nnodes", "0", "a.py"), "nnodes must be one number in .*, but got '0'"),
        (
            ("--nnodes", "2", "--node-rank", "2", "a.py"),
            r"node_rank must be in \[0, 1\], but got 2",
        ),
        (("--nnodes", "2", "--master-port", "65536", "a.py"), "the port of the nodes must be in"),
        (("--nnodes", "2", "--rdzv-backend", "c10d", "a.py"), "rdzv_endpoint must be given"),
        (
            ("--nnodes", "2", "--rdzv-conf", "join_timeout=-1", "a.py"),
            r"join_timeout of rdzv_conf must be in \(0, 86400.0\] seconds, but got '-1'",
        ),
        (("--no-python", "a.sh"), "no_python must not be given"),
        (("--nproc-per-node", "many", "a.py"), "nproc_per_node must be a number"),
        (("--nproc-per-node", "2", "a.py"), "-n must be 2"),
    ):
        with pytest.raises(ArgumentError, match=text):
            as_run(options("torchrun", *words, n_pes=5), 3, 2)
    with pytest.raises(ArgumentError, match=r"module must be torch\.distributed\.run"):
        as_run(options("torch.distributed.launch", "a.py", module=True), 3, 2)


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("--node-rank", "1"), Nodes(2, 1, ("127.0.0.1", 29500), "none", 600.0)),
        (
            ("--master-addr", "a", "--master-port", "7", "--rdzv-conf", "timeout=5"),
            Nodes(2, 0, ("a", 7), "none", 5.0),
        ),
        (
            ("--rdzv-backend", "c10d", "--rdzv-endpoint", "b", "--rdzv-id", "job"),
            Nodes(2, None, ("b", 29400), "job", 600.0),
        ),
        (
            ("--rdzv-backend=c10d", "--rdzv-endpoint=[::1]:8", "--rdzv-conf=join_timeout=9,x=1"),
            Nodes(2, None, ("::1", 8), "none", 9.0),
        ),
    ],
)
def test_nodes_meet_where_torchrun_says(words, nodes):
    given = options("torchrun", "--nnodes", "2", "--nproc-per-node", "4", *words, "a.py", "-x")
    found = as_run(given, 3, 2)
    assert (found.nodes, found.n_pes, found.pes_per_node) == (nodes, None, 4)
    assert words_of(given, found) == ["--no-prefix", "--pes-per-node", "4", "a.py", "-x"]


def test_the_words_of_a_module_on_nodes():
    given = options(
        "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "-m", "a.b", "-x", module=True
    )
    assert words_of(given, as_run(given, 3, 2)) == [
        *("--no-prefix", "--pes-per-node", "1", "-m", "a.b", "-x")
    ]


def test_options_for_hosts_do_not_go_with_nodes():
    for name in ("hosts", "pes_per_node"):
        given = options("torchrun", "--nnodes", "2", "--nproc-per-node", "2", "a.py")
        setattr(given, name, 2)
        with pytest.raises(ArgumentError, match=f"--{name.replace('_', '-')} must not be given"):
            as_run(given, 3, 2)


def test_other_programs_are_run_as_they_are():
    assert not is_torchrun(options("train.py"))
    assert not is_torchrun(options("-"))
    assert not is_torchrun(options("pytest", module=True))


@pytest.mark.slow
def test_the_command_runs_it(command):
    script = command.script("import os, emu\nprint(os.environ['RANK'], emu.world().n_pes)\n")
    done = command("run", "--no-prefix", "torchrun", "--nproc-per-node", 2, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["0", "1", "2", "2"]
