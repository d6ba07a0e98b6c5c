"""What ``emu doctor`` says of MPI: the library that mpi4py loads, the launchers, and whether they belong together."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import NamedTuple

from emu.comm.process.mpi_kinds import kind_of, short_name
from emu.commands.run_hosts import find_mpiexec

_OF_HYDRA = {"MPICH", "Intel MPI"}
"""Each starts what loads the other."""
_LIBRARY = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "print(MPI.Get_library_version())"
)


class Mpi(NamedTuple):
    """What there is of MPI."""

    value: str
    present: bool
    """Whether a World over several hosts can be started."""
    cost: str


def find_mpi(mpi4py: str | None) -> Mpi:
    """Look for MPI.

    Args:
        mpi4py: The version that is installed; None: it is not.
    """
    library, why = _library() if mpi4py else ("", "")
    mpiexec = find_mpiexec()
    launcher = _launcher(mpiexec) if mpiexec else ""
    srun = shutil.which("srun")
    found = [
        f"mpi4py {mpi4py or 'not installed'}",
        library or f"no MPI library{why}",
        f"{launcher}: {mpiexec}" if mpiexec else f"srun: {srun}" if srun else "no mpiexec or srun",
    ]
    return Mpi(", ".join(found), *_judge(mpi4py, library, launcher, bool(mpiexec or srun)))


def _judge(mpi4py: str | None, library: str, launcher: str, can_start: bool) -> tuple[bool, str]:
    """Return whether it can be used, and what is missing."""
    missing = [
        name
        for name, there in {
            "mpi4py": mpi4py,
            "an MPI library": library or not mpi4py,
            "mpiexec or srun": can_start,
        }.items()
        if not there
    ]
    if missing:
        return False, (
            f"no World over several hosts (emu run --pes-per-node), as {' and '.join(missing)} is missing: "
            "pip install 'tile-emu[mpi]', or your site's MPI"
        )
    kinds = {kind_of(library), launcher} - {"", "mpiexec"}
    if len(kinds) > 1 and not kinds <= _OF_HYDRA:
        return False, (
            f"mpiexec must be of the MPI that mpi4py loads, but it is {launcher}'s, and the library {kind_of(library)}: "
            "put the right one first on PATH, or set MPI4PY_LIBMPI"
        )
    return True, ""


def _launcher(mpiexec: str) -> str:
    """Return whose launcher it is."""
    said = _output([mpiexec, "--version"]).lower()
    if "hydra" in said and "intel" not in said:
        return "MPICH"
    return kind_of(said) or ("Open MPI" if "prrte" in said or "openrte" in said else "mpiexec")


def _library() -> tuple[str, str]:
    """Return what mpi4py loads; or nothing, and why it cannot."""
    done = _run([sys.executable, "-c", _LIBRARY])
    if done is None:
        return "", ""
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return "", f" ({said[-1].strip()})" if said else ""
    return short_name(done.stdout), ""


def _output(words: list[str]) -> str:
    done = _run(words)
    return done.stdout if done is not None and done.returncode == 0 else ""


def _run(words: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
