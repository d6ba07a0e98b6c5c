"""MPI as what starts the launchers of a World over several hosts, and what carries their agents' messages.

Nothing else is asked of MPI than that it starts one process on each host and moves bytes between them, which every
implementation does, and each site's own best of all. mpi4py finds it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import platform
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from emu.comm.errors import HostsError
from emu.comm.hosts.mpi_calls import check_calls
from emu.comm.hosts.places import Places
from emu.comm.process.mpi_kinds import check_count, check_launcher, library_name
from emu.kernels.core.dtype_table import DTYPES

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Variables in which launchers of MPI say how many processes they have started."""
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Variables in which they say the number of this one."""
_OF_LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "MPIR_", "MPI_", "HYDI_", "HYDRA_", "I_MPI_")
"""How variables begin that only the process may see which a launcher of MPI has started."""


def started_processes() -> int:
    """Return how many processes a launcher of MPI says to have started; 1: there is none."""
    return _number_said(_SIZES, 1)


def launched_rank() -> int:
    """Return the number of this process among those that a launcher of MPI has started; 0: there is none."""
    return _number_said(_RANKS, 0)


def _number_said(names: Sequence[str], default: int) -> int:
    """Return the number in the first of some variables that has one."""
    said = (os.environ.get(name, "") for name in names)
    return next((int(text) for text in said if text.isdigit()), default)


def without_launcher(variables: dict[str, str]) -> dict[str, str]:
    """Return an environment without what a launcher of MPI has put there: a PE must not take itself for its process."""
    return {name: v for name, v in variables.items() if not name.startswith(_OF_LAUNCHERS)}


def initialise() -> Any:
    """Initialise MPI in this process; return the module ``mpi4py.MPI``.

    Raises:
        HostsError: mpi4py or MPI is missing, lacks what is needed, is another MPI than the one that has started this
            process, was finalised, or allows calls in one thread only.
    """
    # One process a host has nobody to share memory with; MPICH's would stay in /dev/shm when it is killed.
    os.environ.setdefault("MPIR_CVAR_NOLOCAL", "1")
    # libfabric over TCP stops reading from a host at 64 messages that nobody has asked for yet, and was seen not to go on.
    os.environ.setdefault("FI_TCP_MAX_SAVED", "1000000")
    # Up to this size it copies a message and is done; of a larger one the receiver's side sends back that it was delivered.
    os.environ.setdefault("FI_TCP_MAX_INJECT", "16384")
    try:
        import mpi4py

        mpi4py.rc.initialize = False  # under another MPI's launcher that may end the process
        mpi4py.rc.finalize = False  # after a failure nobody waits for hosts that are gone
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise HostsError(
            f"a World over several hosts needs mpi4py and an MPI, but they cannot be loaded ({error}): "
            "pip install 'tile-emu[mpi]', or mpi4py beside the MPI of your site"
        ) from None
    if MPI.Is_finalized():
        raise HostsError(
            "MPI must not have been finalised before a World over several hosts, but it was"
        )
    if not MPI.Is_initialized():
        check_launcher(MPI)
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise HostsError(
            "MPI must allow MPI_THREAD_SERIALIZED, but it allows less, or was initialised so before: "
            f"{library_name(MPI)}"
        )
    check_calls(MPI)
    check_count(MPI, started_processes(), int(MPI.COMM_WORLD.Get_size()))
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
    return MPI


class _Start:
    """Whether this process has told others how it starts, or that it cannot."""

    has_told = False


@contextlib.contextmanager
def failing_together() -> Iterator[None]:
    """Tell the other hosts of an error before the PEs of this one are started, for which they would wait for ever.

    All processes that a launcher of MPI has started enter it, and start a World.
    """
    try:
        yield
    except Exception as error:
        if started_processes() > 1 and not _Start.has_told:
            _tell_failure(f"{type(error).__name__}: {error}")
        raise


def _tell_failure(text: str) -> None:
    """Take part in the comparison of hosts, with an error."""
    with contextlib.suppress(Exception):  # what is raised is the error itself
        mpi = initialise()
        mpi.COMM_WORLD.allgather({"failed": text, "name": mpi.Get_processor_name()})


class _Ending:
    """What earlier launches of this process have left."""

    communicators: ClassVar[list[Any]] = []
    all_are_there = True


def finalise_at_exit(mpi: Any, communicator: Any, *, all_are_there: bool) -> None:
    """Have MPI finalised when this process ends, if all hosts have come to the end of each launch: else some would wait.

    Args:
        mpi: The module ``mpi4py.MPI``.
        communicator: What the agents of a launch have sent their messages by.
        all_are_there: Whether all hosts have come to its end.
    """
    if not _Ending.communicators:
        atexit.register(_finalise, mpi)
    _Ending.communicators.append(communicator)
    _Ending.all_are_there &= all_are_there


def _finalise(mpi: Any) -> None:
    if not _Ending.all_are_there:
        return
    status = mpi.Status()
    for communicator in _Ending.communicators:
        communicator.Barrier()  # from now on nobody sends: a last sign of life may be unread, which MPI would warn of
        while True:
            message = communicator.Improbe(mpi.ANY_SOURCE, mpi.ANY_TAG, status)
            if message is None:
                break
            count = status.Get_count(mpi.BYTE)
            message.Recv([bytearray(count), count, mpi.BYTE])
    mpi.Finalize()


def exchange(mpi: Any, values: Sequence[Any]) -> list[Any]:
    """Return the values of each host, which every host gives.

    Raises:
        HostsError: Those of a host cannot be pickled, or do not come.
    """
    try:
        mine: bytes | str = pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - __reduce__ may raise anything; others must not wait
        mine = f"{type(error).__name__}: {error}"
    try:
        everyone = mpi.COMM_WORLD.allgather(mine)
    except mpi.Exception as error:
        raise HostsError(f"the results of other hosts must arrive, but do not: {error}") from None
    for host, found in enumerate(everyone):
        if isinstance(found, str):
            raise HostsError(
                f"results must be picklable, but those of host {host} are not: {found}"
            )
    here = mpi.COMM_WORLD.Get_rank()
    return [values if h == here else pickle.loads(found) for h, found in enumerate(everyone)]


def agree(mpi: Any, n_here: int, setting: dict[str, object]) -> Places:
    """Compare this host with all others; return where PEs are.

    Args:
        mpi: The module ``mpi4py.MPI``.
        n_here: PEs of this host.
        setting: What else must be the same on all hosts.

    Raises:
        HostsError: Hosts differ, on all hosts, or one was lost before; nothing was started.
    """
    if not _Ending.all_are_there:
        raise HostsError("hosts must all be there, but one was lost in an earlier launch")
    communicator = mpi.COMM_WORLD
    name, same = mpi.Get_processor_name(), {**_versions(), **setting}
    mine = {"n": n_here, "name": name, "same": same, "port": _port()}
    _Start.has_told = True
    everyone = communicator.allgather(mine)
    _take_names_away()  # as all are there, nobody opens them any more
    for host, other in enumerate(everyone):
        if "failed" in other:
            raise HostsError(f"host {host} ({other['name']}) cannot start: {other['failed']}")
    first = everyone[0]
    for host, other in enumerate(everyone):
        for what, value in first["same"].items():
            if other["same"].get(what) != value:
                raise HostsError(
                    f"{what} must be the same on all hosts, but it is {value!r} on host 0 ({first['name']}) and "
                    f"{other['same'].get(what)!r} on host {host} ({other['name']})"
                )
    names = tuple(str(other["name"]) for other in everyone)
    counts = tuple(int(other["n"]) for other in everyone)
    return Places(counts, communicator.Get_rank(), names, first["port"])


def _port() -> int:
    """Return a free port, or that which the environment names for the program: it may have been opened for this one."""
    given = os.environ.get("MASTER_PORT", "")
    if given.isdecimal():
        return int(given)
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _take_names_away() -> None:
    """Remove the names of shared memory that MPICH has made for this process: it would leave them when it is killed."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        names = {line.split()[-1] for line in file if "/dev/shm/mpich_shm_" in line}
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _versions() -> dict[str, object]:
    """Return what hosts of one World must have in common, by the names that messages use."""
    return {
        "the version of emu": _installed("tile-emu"),
        "the version of Python": platform.python_version(),
        "the byte order": sys.byteorder,
        "the machine": platform.machine(),
        "the version of NumPy": _installed("numpy"),
        "the version of Numba": _installed("numba"),
        "the version of ml_dtypes": _installed("ml_dtypes"),
        "the table of dtypes": [str(dtype) for dtype in DTYPES],
    }


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def check_supported(given: Mapping[str, tuple[object, object, bool]]) -> None:
    """Raise what a World over several hosts does not have yet.

    Args:
        given: What must be, what was given, and whether that is something else, by the name of each setting.

    Raises:
        HostsError: One of them is.
    """
    for name, (bound, value, is_other) in given.items():
        if is_other:
            raise HostsError(
                f"{name} must be {bound!r} in a World over several hosts, which does not have it yet, but got {value!r}"
            )
