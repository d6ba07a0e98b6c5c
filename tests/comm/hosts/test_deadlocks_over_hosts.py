"""Deadlocks over hosts are proved at once, with what each PE waits for; and slow programs are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deadlock_programs
import pytest

import emu
from emu.commands.run_hosts import find_mpiexec

pytest.importorskip("mpi4py")
MPIEXEC = find_mpiexec()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc"),
    pytest.mark.timeout(600),
]


def found_on(hosts: int, pes: int, folder: Path, *names: str) -> dict[str, list[Any]]:
    """Run programs over hosts; return what each launcher has left, by what it is."""
    assert MPIEXEC is not None
    root = str(Path(emu.__file__).parents[1])
    words = [sys.executable, deadlock_programs.__file__, str(pes), *names]
    run = subprocess.run(
        [MPIEXEC, "-n", str(hosts), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "HOST_PROGRAMS_FOLDER": str(folder)},
        timeout=580,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    found: dict[str, list[Any]] = {}
    for path in sorted(folder.iterdir()):
        found.setdefault(path.name.rpartition("-")[0], []).append(json.loads(path.read_text()))
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The reports of all deadlocks on two hosts of two PEs each."""
    folder = tmp_path_factory.mktemp("deadlocks")
    return found_on(2, 2, folder, *DEADLOCKS)


DEADLOCKS = {
    "crossed_signals": [
        "nobody can release PEs 0 and 3 any more",
        f"PE 0 waits in wait_until flag[0] EQ 5 at {deadlock_programs.__file__}:",
        f"PE 3 waits in wait_until flag[0] EQ 5 at {deadlock_programs.__file__}:",
        "cycle: PE 0 (wait_until flag[0] EQ 5) waits for PE 3 (wait_until flag[0] EQ 5) waits for PE 0",
    ],
    "barrier_and_signal": [
        "nobody can release PEs 0, 1, 2 and 3 any more",
        "cycle: PE 0 (barrier of group 'world') waits for PE 1 (wait_until flag[0] EQ 5) waits for PE 0",
        "PE 0 waits in barrier of group 'world': 3 of 4 have arrived, missing PEs [1]",
        "PE 2 waits in barrier of group 'world': 3 of 4 have arrived, missing PEs [1]",
    ],
    "lock_and_signal": [
        "nobody can release PEs 0 and 3 any more",
        "PE 3 waits for the lock lock[0], held by PE 0, which waits itself, in wait_until both[0] EQ 7",
    ],
    "crossed_groups": [
        "nobody can release PEs 0 and 3 any more",
        "call barriers or collectives of different groups in different orders",
    ],
    "others_send": [
        "nobody can release PEs 0 and 3 any more",
        "cycle: PE 0 (wait_until flag of two[0] EQ 5) waits for PE 3",
    ],
    "member_ended": [
        "PEs 0 and 1 have ended (PE 0 returned at ",
        "for them in barrier of group 'world (all_reduce)'",  # of one PE, if the other compiles still
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_over_hosts_is_proved_and_told_by_one_for_all(
    name: str, reports: dict[str, list[Any]]
) -> None:
    each = reports[f"REPORT-{name}"]
    assert len(each) == 2
    whole = [text for text in each if text[0].startswith("deadlock: nobody can release")]
    assert len(whole) == 1, each
    for part in DEADLOCKS[name]:
        assert part in whole[0][0]
    (other,) = [text for text in each if text is not whole[0]]
    assert "stopped by host 0" in other[0]
    assert "deadlock: nobody can release" in other[1]


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "pes"), [(2, 2), (4, 1), (3, 2)])
def test_programs_that_are_slow_but_right_are_no_deadlocks(
    hosts: int, pes: int, tmp_path: Path
) -> None:
    """The launchers look all the time, and not once a second."""
    names = deadlock_programs.RIGHT
    found = found_on(hosts, pes, tmp_path, *names)
    assert sorted(found) == [f"RESULTS-{name}" for name in names], found
    assert all(len(each) == hosts for each in found.values())
