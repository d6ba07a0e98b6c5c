"""PEs, agents and hosts are killed at random moments: all end soon, say what died, and leave nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import host_programs
import numpy as np
import pytest
from campaigns import TIMES

import emu
from emu.commands.run_hosts import find_mpiexec

pytest.importorskip("mpi4py")
MPIEXEC = find_mpiexec()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc"),
]
ENDS_S = 5.0
WAYS = ("pe", "launcher", "host", "alone", "int", "term", "stopped")
"""What is killed: a PE; the launcher of a host; that with its PEs; it, while MPI's launcher does not care; Ctrl-C at mpiexec;
SIGTERM for all, as Slurm sends; a host is stopped for some seconds, which nobody may take for a death."""


class Trial:
    """One World over two or three hosts, which ends badly.

    Args:
        seed: What decides how.
        folder: Where launchers leave what they have to say.
        way: One of ``WAYS``.
    """

    def __init__(self, seed: int, folder: Path, way: str) -> None:
        assert MPIEXEC is not None
        self._draw = np.random.default_rng(seed)
        self._folder = folder
        self._way = way
        self._hosts = int(self._draw.integers(2, 4))
        root = str(Path(emu.__file__).parents[1])
        words = [sys.executable, host_programs.__file__, "2", "churn"]
        environment = {**os.environ, "PYTHONPATH": root, "HOST_PROGRAMS_FOLDER": str(folder)}
        if seed % 2:
            environment |= {"FI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi"}
        self._run = subprocess.Popen(
            [MPIEXEC, "-n", str(self._hosts), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self._launchers: list[int] = []
        self._pes: dict[int, int] = {}
        assert self._run.stdout is not None
        while len(self._pes) < 2 * self._hosts:
            line = self._run.stdout.readline()
            assert line, "it ended too early"
            self._launchers += [int(pid) for pid in re.findall(r"launcher (\d+)", line)]
            for pe, pid in re.findall(r"\[ *(\d+)\] pid \d+ (\d+)", line):
                self._pes[int(pe)] = int(pid)

    def _host_of(self, launcher: int) -> int:
        """Return the host whose launcher this is: the number in its environment."""
        with open(f"/proc/{launcher}/environ", "rb") as file:
            found = re.search(rb"(?:PMI|OMPI_COMM_WORLD)_RANK=(\d+)", file.read())
        assert found is not None
        return int(found[1])

    def _strike(self) -> str:
        """Do it; return a pattern that a report must match."""
        time.sleep(float(self._draw.uniform(0, 0.3)))
        launcher = self._launchers[int(self._draw.integers(self._hosts))]
        host = self._host_of(launcher)
        pe = int(self._draw.integers(2 * self._hosts))
        if self._way == "pe":
            os.kill(self._pes[pe], signal.SIGKILL)
            return rf"PE {pe} \(process {self._pes[pe]}\) was killed by SIGKILL"
        if self._way in ("int", "term"):
            number = signal.SIGINT if self._way == "int" else signal.SIGTERM
            for process in [self._run.pid] if self._way == "int" else self._launchers:
                os.kill(process, number)
            return "KeyboardInterrupt|stopped by host"
        if self._way == "alone":
            self._stop_mpiexec(launcher)
        victims = [launcher]
        if self._way == "host":
            victims += [self._pes[pe] for pe in (2 * host, 2 * host + 1)]
        for process in victims:
            os.kill(process, signal.SIGKILL)
        if self._way == "alone":
            return rf"host {host} \(.*\) is lost: its process has ended|PE \d+ .*(killed|died)"
        return (
            rf"PID \d+ |signal 9|host {host} \("  # mpiexec names one that has died, perhaps by it
        )

    def _stop_mpiexec(self, launcher: int) -> None:
        """Stop what would end all others when a launcher has died."""
        with open(f"/proc/{launcher}/stat") as file:
            self._proxy = int(file.read().rpartition(")")[2].split()[1])
        os.kill(self._proxy, signal.SIGSTOP)

    def _reports(self) -> list[Path]:
        return list(self._folder.glob("REPORT-*"))

    def _end(self) -> tuple[float, str]:
        """Wait for the end; return the seconds until no PE lived and all had said why, and all output."""
        begin = time.monotonic()
        silent = {"launcher": self._hosts, "host": self._hosts, "alone": 1}.get(self._way, 0)
        while time.monotonic() < begin + 60 and (
            any(map(_lives, self._pes.values())) or len(self._reports()) < self._hosts - silent
        ):
            time.sleep(0.02)
        took = time.monotonic() - begin
        if self._way == "alone":
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._proxy, signal.SIGCONT)
        return took, self._run.communicate(timeout=60)[0]

    def carry_out(self) -> float:
        """Strike, and check the end; return the seconds that it took."""
        if self._way == "stopped":
            self._stop_for_a_while()
        pattern = self._strike() if self._way != "stopped" else ""
        if self._way == "stopped":
            for process in self._launchers:
                os.kill(process, signal.SIGTERM)
        took, text = self._end()
        said = "\n".join("\n".join(json.loads(path.read_text())) for path in self._reports())
        if self._way in ("launcher", "host"):  # mpiexec ends all others at once
            said += text
        assert re.search(pattern, said), f"{pattern}\n{said}\n{text}"
        assert not [pe for pe, process in self._pes.items() if _lives(process)], text
        return took

    def _stop_for_a_while(self) -> None:
        """Stop a launcher, with its agent, for longer than silence is borne, and go on."""
        victim = self._launchers[int(self._draw.integers(self._hosts))]
        os.kill(victim, signal.SIGSTOP)
        time.sleep(5.0)
        assert self._run.poll() is None
        os.kill(victim, signal.SIGCONT)
        time.sleep(1.0)
        assert self._run.poll() is None
        assert not self._reports()


def _lives(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def try_once(seed: int, folder: Path, way: str) -> float:
    """Carry out a trial, and check that MPI has left nothing in /dev/shm; return the seconds to the end."""
    before = set(os.listdir("/dev/shm"))
    took = Trial(seed, folder, way).carry_out()
    end = time.monotonic() + 2.0
    while time.monotonic() < end and _left(before):
        time.sleep(0.05)  # other tests may run MPI just now
    assert not _left(before)
    return took


def _left(before: set[str]) -> set[str]:
    return {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("mpich")}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_all_end_soon_and_say_what_died(way: str, tmp_path: Path) -> None:
    for seed in range(2 * TIMES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert try_once(seed, folder, way) < ENDS_S
