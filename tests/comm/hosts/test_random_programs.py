"""Many short random programs find the same bits over hosts as on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import host_programs
import pytest
from campaigns import TIMES

import emu
from emu.commands.run_hosts import find_mpiexec

pytest.importorskip("mpi4py")
MPIEXEC = find_mpiexec()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(600),
]


def found_over_hosts(folder: Path, hosts: int, pes: int, first: int, end: int) -> list[list[str]]:
    """Return what each PE found in each program, in PE order."""
    assert MPIEXEC is not None
    root = str(Path(emu.__file__).parents[1])
    words = [sys.executable, host_programs.__file__, str(pes)]
    run = subprocess.run(
        [MPIEXEC, "-n", str(hosts), *words, "number", f"short_programs:{first}:{end}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "HOST_PROGRAMS_FOLDER": str(folder)},
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    halves: list[list[dict[str, Any]]] = [
        json.loads(path.read_text()) for path in folder.glob("RESULTS-*")
    ]
    each = sorted((pe for half in halves for pe in half), key=lambda pe: int(pe["number"]))
    assert len(each) == hosts * pes, run.stdout
    return [pe[f"short_programs:{first}:{end}"] for pe in each]


def compare(folder: Path, hosts: int, pes: int, first: int, end: int) -> None:
    name = f"short_programs:{first}:{end}"
    one = emu.launch(host_programs.run_all, hosts * pes, args=([name],))
    many = found_over_hosts(folder, hosts, pes, first, end)
    for number in range(end - first):
        here = [pe[name][number] for pe in one]
        there = [pe[number] for pe in many]
        assert there == here, f"program {first + number} differs on {hosts} hosts of {pes} PEs"


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "pes"), [(2, 2), (3, 1), (3, 2), (4, 1)])
def test_thousands_of_short_programs_find_the_same_bits(
    hosts: int, pes: int, tmp_path: Path
) -> None:
    first = 1_000_000 * hosts + 100_000 * pes
    compare(tmp_path, hosts, pes, first, first + 500 * TIMES)
