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
    """Return what C has for an object of mpi4py: a number, or a pointer."""
    nbytes = int(mpi._sizeof(type(value)))
    kind = ctypes.c_int32 if nbytes == ctypes.sizeof(ctypes.c_int32) else ctypes.c_int64
    return int(kind.from_address(int(mpi._addressof(value))).value)


def source_offset(mpi: Any) -> int:
    """Return where in a status the rank of the sender stands, in bytes."""
    status, rank = mpi.Status(), 0x5EAC
    status.Set_source(rank)
    nbytes = int(mpi._sizeof(mpi.Status))
    words = (ctypes.c_int32 * (nbytes // 4)).from_address(int(mpi._addressof(status)))
    return 4 * list(words).index(rank)
