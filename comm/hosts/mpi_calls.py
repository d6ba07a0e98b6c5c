"""MPI called from compiled code: by the addresses of its functions, which mpi4py has loaded.

An agent that called MPI from Python alone took 50 to 100 microseconds for a record, most of it Python's; so its loop is
compiled (:mod:`emu.comm.hosts.serving`), and calls the same library with the same communicator.

Implementations differ in what a handle is: an integer of four bytes (MPICH, Intel MPI) or a pointer (Open MPI). Passed
by value, either fits a register; where MPI writes one, eight bytes are there for it. The sender's rank stands somewhere in
a status: where, is asked of mpi4py once.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types

from emu.comm.errors import HostsError
from emu.kernels.core.annotations import IrBuilder, IrValue
from emu.kernels.core.jit import fixed_intrinsic

_I64, _I32 = ir.IntType(64), ir.IntType(32)

FUNCTIONS = ("Isend", "Irecv", "Test", "Improbe", "Imrecv", "Get_count")
"""What is called, in the order in which :func:`find_functions` returns the addresses."""


def _emit(builder: IrBuilder, result: Any, function: IrValue, *arguments: IrValue) -> IrValue:
    kind = ir.FunctionType(result, [_I64] * len(arguments))
    found = builder.call(builder.inttoptr(function, kind.as_pointer()), arguments)
    return found if result is _I64 else builder.sext(found, _I64)


@fixed_intrinsic(types.int64, *[types.int64] * 4)
def call_3(builder: IrBuilder, function: IrValue, a: IrValue, b: IrValue, c: IrValue) -> IrValue:
    """Call a C function of three integers or pointers; return its ``int``."""
    return _emit(builder, _I32, function, a, b, c)


@fixed_intrinsic(types.int64, *[types.int64] * 6)
def call_5(
    builder: IrBuilder,
    function: IrValue,
    a: IrValue,
    b: IrValue,
    c: IrValue,
    d: IrValue,
    e: IrValue,
) -> IrValue:
    """Call a C function of five integers or pointers; return its ``int``."""
    return _emit(builder, _I32, function, a, b, c, d, e)


@fixed_intrinsic(types.int64, *[types.int64] * 7)
def call_6(
    builder: IrBuilder,
    function: IrValue,
    a: IrValue,
    b: IrValue,
    c: IrValue,
    d: IrValue,
    e: IrValue,
    f: IrValue,
) -> IrValue:
    """Call a C function of six integers or pointers; return its ``int``."""
    return _emit(builder, _I32, function, a, b, c, d, e, f)


@fixed_intrinsic(types.int64, *[types.int64] * 8)
def call_7(
    builder: IrBuilder,
    function: IrValue,
    a: IrValue,
    b: IrValue,
    c: IrValue,
    d: IrValue,
    e: IrValue,
    f: IrValue,
    g: IrValue,
) -> IrValue:
    """Call a C function of seven integers or pointers; return its ``int``."""
    return _emit(builder, _I32, function, a, b, c, d, e, f, g)


@fixed_intrinsic(types.int64, *[types.int64] * 8)
def call_kernel(
    builder: IrBuilder,
    function: IrValue,
    a: IrValue,
    b: IrValue,
    c: IrValue,
    d: IrValue,
    e: IrValue,
    f: IrValue,
    g: IrValue,
) -> IrValue:
    """Call one of our kernels of seven int64 by its native address; return its int64."""
    return _emit(builder, _I64, function, a, b, c, d, e, f, g)


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
