"""Which MPI there is: by what its library says, and by what its launcher has put into the environment."""

from __future__ import annotations

import os
from typing import Any

from emu.comm.errors import HostsError

KINDS = {"mpich": "MPICH", "open mpi": "Open MPI", "intel": "Intel MPI"}
"""The implementations, by what their texts have in common."""
_OF_OPEN_MPI = "OMPI_COMM_WORLD_SIZE"
_SAYS_SRUN = "SLURM_STEP_NUM_TASKS"


def kind_of(text: str) -> str:
    """Return which MPI a text is about, or nothing."""
    return next((name for word, name in KINDS.items() if word in text.lower()), "")


def short_name(says: str) -> str:
    """Return name and version of a library, of all that it says of itself."""
    line = next(iter(says.replace("\0", "").splitlines()), "")
    return " ".join(line.split(", package:")[0].split())


def library_name(mpi: Any) -> str:
    """Return name and version of the library that ``mpi4py.MPI`` has loaded."""
    return short_name(mpi.Get_library_version())


def check_launcher(mpi: Any) -> None:
    """Raise if a launcher has started this process that MPI cannot be initialised under: MPICH ends the process then.

    Raises:
        HostsError: Open MPI's launcher has started a process that loads MPICH.
    """
    name = library_name(mpi)
    if kind_of(name) == "MPICH" and _OF_OPEN_MPI in os.environ:
        raise HostsError(
            f"mpiexec must be of the MPI that mpi4py loads, but it is Open MPI's, and the library is {name}: put the "
            "right mpiexec first on PATH, or set MPI4PY_LIBMPI"
        )


def check_count(mpi: Any, started: int, found: int) -> None:
    """Raise if MPI does not find the processes that were started with this one.

    Args:
        mpi: The module ``mpi4py.MPI``.
        started: How many a launcher of MPI says that it has started; 1: there is none.
        found: How many MPI finds.

    Raises:
        HostsError: MPI finds others.
    """
    if found != started and started > 1:
        raise HostsError(
            f"mpiexec must be of the MPI that mpi4py loads, but it says that it has started {started} processes, and "
            f"{library_name(mpi)} finds {found}"
        )
    tasks = os.environ.get(_SAYS_SRUN, "")
    if found == 1 and tasks.isdigit() and int(tasks) > 1:
        raise HostsError(
            f"srun must start processes as {library_name(mpi)} wants it, but it has started {tasks} tasks, and that finds "
            f"{found}: srun --mpi=pmi2 or --mpi=pmix (srun --mpi=list says what there is), or that MPI's mpiexec"
        )
