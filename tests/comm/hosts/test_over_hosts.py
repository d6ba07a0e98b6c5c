"""A World over two hosts, which are two processes of mpiexec here, beside the same World on one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import host_programs
import pytest
from mpi_runs import mpiexec

import emu
from emu.commands.run_hosts import find_mpiexec

pytest.importorskip("mpi4py")
MPIEXEC = find_mpiexec()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(400),  # with an empty cache two launchers and four PEs compile
]
NAMES = [*(program.__name__ for program in host_programs.PROGRAMS), "short_programs:0:40"]
Found = list[dict[str, Any]]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    assert MPIEXEC is not None
    root = str(Path(emu.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "HOST_PROGRAMS_FOLDER": str(folder)}
    return subprocess.Popen(
        [MPIEXEC, "-n", "2", sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def found_by(what: str, folder: Path) -> list[Any]:
    """Return what each launcher has left."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{what}-*"))]


def over_hosts(folder: Path, *names: str) -> Found:
    """Run programs on two hosts with two PEs each; return what each PE found, in PE order."""
    with start(folder, host_programs.__file__, "2", *names) as run:
        text, _ = run.communicate(timeout=300)
    assert run.returncode == 0, text
    halves: list[Found] = found_by("RESULTS", folder)
    assert len(halves) == 2, text
    halves.sort(key=lambda half: half[0].get("number", 0))
    return [pe for half in halves for pe in half]


def on_one(*names: str) -> Found:
    found: Found = json.loads(json.dumps(emu.launch(host_programs.run_all, 4, args=(names,))))
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """Run all programs once on each transport."""
    return {
        "mpi": over_hosts(tmp_path_factory.mktemp("hosts"), "number", *NAMES, "refused"),
        "shm": on_one(*NAMES),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_program_finds_the_same_bits_over_hosts(name: str, both: dict[str, Found]) -> None:
    assert [pe[name] for pe in both["mpi"]] == [pe[name] for pe in both["shm"]]


def test_what_needs_one_host_is_refused_by_name(both: dict[str, Found]) -> None:
    for pe in both["mpi"]:
        view, scope = pe["refused"]
        assert view == scope
        assert view.startswith("ArgumentError: pe must be on this host for on()")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_random_programs_find_the_same_bits_over_hosts(seed: int, tmp_path: Path) -> None:
    names = [f"random_program:{number}" for number in range(seed, seed + 20)]
    for one, other in zip(over_hosts(tmp_path, "number", *names), on_one(*names), strict=True):
        del one["number"]
        assert one == other


def test_a_script_that_one_host_lacks_ends_all_before_they_start(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import emu\nemu.world().barrier()\n")
    words = ["-m", "emu", "run", "--pes-per-node", "1"]
    other = [sys.executable, *words, str(tmp_path / "missing.py")]
    run = mpiexec(*words, str(script), ":", "-n", "1", *other, n=1, timeout=100)
    assert run.returncode
    assert "script must be a file, but got" in run.stdout
    assert re.search(r"host 1 \(.*\) cannot start: \w*Error: script must be", run.stdout)


# --- the end of a World -------------------------------------------------------------------


@pytest.fixture
def shared_memory() -> Callable[[], set[str]]:
    before = set(os.listdir("/dev/shm"))
    return lambda: {n for n in set(os.listdir("/dev/shm")) - before if n.startswith("mpich")}


def reports(folder: Path) -> str:
    return "\n".join("\n".join(found) for found in found_by("REPORT", folder))


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("raise", "PE 3 raised ValueError: seven is too many"),
        pytest.param("kill", r"PE 3 \(process \d+\) was killed by SIGKILL", marks=pytest.mark.slow),
        pytest.param(
            "compile", r"PE 0 \(process \d+\) was killed by SIGKILL", marks=pytest.mark.slow
        ),
        pytest.param(
            "barrier",
            "PE 0 waits in barrier of group 'world': 3 of 4 have arrived, missing PEs \\[1\\]",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_all_hosts_end_for_the_cause_that_one_has_found(
    how: str, cause: str, tmp_path: Path
) -> None:
    with start(tmp_path, host_programs.__file__, "2", f"fail-{how}") as run:
        text, _ = run.communicate(timeout=300)
    assert run.returncode
    assert len(found_by("REPORT", tmp_path)) == 2, text
    assert re.search(cause, reports(tmp_path)), text
    if how == "barrier":
        assert re.search(r"on host 0 \(.*, PEs 0 to 1\):\n *PE 0 waits", reports(tmp_path))
        assert re.search(r"on host 1 \(.*, PEs 2 to 3\):\n *PE 2 waits", reports(tmp_path))


@pytest.mark.slow
def test_the_example_prints_the_same_bits_over_hosts() -> None:
    example = Path(emu.__file__).parents[1] / "examples" / "comm" / "many_hosts.py"
    if not example.exists():
        pytest.skip("the examples are not installed")
    words = ["-m", "emu", "run", "--hosts", "localhost,127.0.0.1", "--pes-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *words, str(example)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(example.parents[2])},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded = example.parents[2] / "docs" / "gallery" / "comm-many_hosts.txt"
    assert recorded.read_text().strip() in done.stdout


@pytest.mark.slow
def test_a_host_that_is_killed_ends_all_within_five_seconds(
    shared_memory: Callable[[], set[str]], tmp_path: Path
) -> None:
    with start(tmp_path, host_programs.__file__, "2", "fail-host") as run:
        assert run.stdout is not None
        launchers, pes = [], []
        while len(pes) < 4:  # all have passed the first barrier
            line = run.stdout.readline()
            assert line, "it ended too early"
            launchers += [int(pid) for pid in re.findall(r"launcher (\d+)", line)]
            pes += [int(pid) for pid in re.findall(r"\] pid \d+ (\d+)", line)]
        begin = time.monotonic()
        os.kill(launchers[1], signal.SIGKILL)
        text, _ = run.communicate(timeout=60)
        assert time.monotonic() - begin < 5.0
    assert run.returncode
    assert re.search(r"PID \d+|signal 9", text), text  # mpiexec has ended all, and says so
    end = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in pes) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pes)
    assert not shared_memory()
