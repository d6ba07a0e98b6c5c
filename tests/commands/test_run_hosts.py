"""The options with which launchers of MPI start a command on each host, and what is told of cores."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from emu.comm.errors import ArgumentError
from emu.commands import run_hosts


@pytest.mark.parametrize(
    ("says", "words"),
    [
        # A host that is named twice has two processes: "ppr:1:node" would be refused.
        ("mpiexec (Open MPI) 5.0.11", ["--host", "a,b,a", "--map-by", "node", "--bind-to", "none"]),
        ("HYDRA build details:", ["-hosts", "a,b,a", "-ppn", "1"]),
    ],
)
def test_hosts_are_named_as_a_launcher_wants_it(
    says: str, words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "mpiexec"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    assert run_hosts._on_each(str(file), ["a", "b", "a"]) == ["-n", "3", *words]


def test_hosts_are_named_once_and_not_by_what_a_launcher_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    options = argparse.Namespace(hosts="a,b", pes_per_node=2)
    with pytest.raises(ArgumentError, match=r"--hosts must not be given .* 2 times already"):
        run_hosts.check_hosts(options)


@pytest.mark.parametrize(
    ("n_pes", "usable", "there", "is_told"),
    [(8, 1, 64, True), (8, 8, 64, False), (8, 2, 2, False), (1, 1, 64, False), (2, 1, 2, True)],
)
def test_pes_that_share_few_cores_because_of_a_launcher_are_told_of(
    n_pes: int, usable: int, there: int, is_told: bool
) -> None:
    told = run_hosts.bound(n_pes, usable, there)
    assert bool(told) is is_told
    if is_told:
        assert told.startswith(f"{n_pes} PEs share {usable} of {there} cores")
        assert "--bind-to none" in told
