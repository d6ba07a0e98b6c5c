"""Python under mpiexec, as the tests of Worlds over hosts start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import emu
from emu.commands.run_hosts import find_mpiexec

MPIEXEC = find_mpiexec()


def mpiexec(
    *words: str, folder: Path | None = None, n: int = 2, timeout: float = 380
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` as so many hosts; what programs find is left in ``folder``."""
    assert MPIEXEC is not None
    environment = {**os.environ, "PYTHONPATH": str(Path(emu.__file__).parents[1])}
    if folder is not None:
        environment["HOST_PROGRAMS_FOLDER"] = str(folder)
    return subprocess.run(
        [MPIEXEC, "-n", str(n), sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=timeout,
        check=False,
    )
