"""What compiled code needs to call MPI: the addresses of its functions, which mpi4py has loaded, and handles.

An agent that called MPI from Python alone took 50 to 100 microseconds for a record, most of it Python's; so its loop is
compiled (:mod:`emu.comm.hosts.serving`), and calls the same library with the same communicator.

Implementations differ in what a handle is: an integer of four bytes (MPICH, Intel MPI) or a pointer (Open MPI). Passed
by value, either fits a register; where MPI writes one, eight bytes are there for it. The sender's rank stands somewhere in
a status: where, is asked of mpi4py once.
"""

from __future__ import annotations

import ctypes
from typing import Any

from emu.comm.errors import HostsError

STATUS_BYTES = 256
"""Memory for a status."""
_HANDLES: dict[int, Any] = {4: ctypes.c_int32, ctypes.sizeof(ctypes.c_void_p): ctypes.c_int64}

FUNCTIONS = ("Isend", "Irecv", "Test", "Testany", "Get_count")
"""What is called, in the order in which :func:`find_functions` returns the addresses."""


def find_functions(mpi: Any) -> list[int]:
    """Return the addresses of :data:`FUNCTIONS`.

    Args:
        mpi: The module ``mpi4py.MPI``.

    Raises:
        HostsError: The library that mpi4py has loaded does not have one.
    """
    libraries = [ctypes.CDLL(mpi.__file__), ctypes.CDLL(None)]
    return [_find(f"MPI_{name}", libraries) for name in FUNCTIONS]


def _find(name: str, libraries: list[ctypes.CDLL]) -> int:
    for library in libraries:
        found = getattr(library, name, None)
        if found is not None:
            return int(ctypes.cast(found, ctypes.c_void_p).value or 0)
    raise HostsError(f"the MPI that mpi4py loads must have the function {name}, but it has not")


def handle_of(mpi: Any, value: Any) -> int:
    """Return what C has for an object of mpi4py: a number, or a pointer.

    Raises:
        HostsError: It is neither.
    """
    kind = type(value)
    nbytes = int(mpi._sizeof(kind))
    if nbytes not in _HANDLES:
        raise HostsError(
            f"a handle of MPI must have 4 bytes or those of an address, but {kind.__name__} has {nbytes}"
        )
    return int(_HANDLES[nbytes].from_address(int(mpi._addressof(value))).value)


def check_calls(mpi: Any) -> None:
    """Check that compiled code can call this MPI.

    Raises:
        HostsError: It lacks a function, or handles are something else than what is known.
    """
    find_functions(mpi)
    for value in (mpi.COMM_WORLD, mpi.BYTE, mpi.REQUEST_NULL):
        handle_of(mpi, value)
    nbytes = int(mpi._sizeof(mpi.Status))
    if nbytes > STATUS_BYTES:
        raise HostsError(
            f"a status of MPI must have at most {STATUS_BYTES} bytes, but this has {nbytes}"
        )
