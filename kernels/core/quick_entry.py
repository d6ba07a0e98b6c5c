"""Entries of kernels for Python that cost half of Numba's: arguments come as Python has them, in an array, and not in a tuple.

Numba's entries are functions of a tuple and a dictionary, which Python must make for each call. Here one function of compiled code stands before all
kernels (``METH_FASTCALL``): it turns what it was given into integers, calls the kernel, whose address it was bound to, and turns the result into an ``int``.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import Dispatcher, EntryPoint, IrBuilder, IrValue
from emu.kernels.core.c_calls import call_c, give_gil, take_gil
from emu.kernels.core.jit import entry_when_called, fixed_intrinsic, jit, native_address

MOST = 10
"""Arguments that a kernel may have."""

_FASTCALL = 0x80
_I64, _I32 = ir.IntType(64), ir.IntType(32)


def _emit_call(
    builder: IrBuilder, kernel: IrValue, given: IrValue, count: int, gives_gil: bool
) -> IrValue:
    """Emit the call of a kernel of so many arguments; return its result as an object, or 0 where one was no integer."""
    minus_one = ir.Constant(_I64, -1)
    objects = builder.inttoptr(given, _I64.as_pointer())
    numbers, unsure = [], cgutils.false_bit
    for index in range(count):
        place = builder.gep(objects, [ir.Constant(_I32, index)])
        number = call_c(builder, "PyLong_AsLongLong", _I64, builder.load(place))
        unsure = builder.or_(unsure, builder.icmp_signed("==", number, minus_one))
        numbers.append(number)
    result = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
    with builder.if_else(unsure, likely=False) as (then, otherwise):
        with then:
            error = call_c(builder, "PyErr_Occurred", _I64)
            is_wrong = builder.icmp_signed("!=", error, ir.Constant(_I64, 0))
            with builder.if_then(builder.not_(is_wrong)):
                builder.store(_emit_kernel(builder, kernel, numbers, gives_gil), result)
        with otherwise:
            builder.store(_emit_kernel(builder, kernel, numbers, gives_gil), result)
    return builder.load(result)


def _emit_kernel(
    builder: IrBuilder, kernel: IrValue, numbers: list[IrValue], gives_gil: bool
) -> IrValue:
    kind = ir.FunctionType(_I64, [_I64] * len(numbers))
    state = give_gil(builder) if gives_gil else None
    found = builder.call(builder.inttoptr(kernel, kind.as_pointer()), numbers)
    if state is not None:
        take_gil(builder, state)
    return call_c(builder, "PyLong_FromLongLong", _I64, found)


def _emit(
    builder: IrBuilder, bound: IrValue, given: IrValue, count: IrValue, gives_gil: bool
) -> IrValue:
    """Emit the call of the kernel whose address is an ``int``, of as many arguments as there are; 0: an error is set."""
    kernel = call_c(builder, "PyLong_AsLongLong", _I64, bound)
    result = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
    behind = builder.append_basic_block("behind")
    choice = builder.switch(count, behind)
    for arguments in range(MOST + 1):
        block = builder.append_basic_block(f"of_{arguments}")
        choice.add_case(ir.Constant(_I64, arguments), block)
        with builder.goto_block(block):
            builder.store(_emit_call(builder, kernel, given, arguments, gives_gil), result)
            builder.branch(behind)
    builder.position_at_end(behind)
    return builder.load(result)


@fixed_intrinsic(types.int64, types.int64, types.int64, types.int64)
def _forward(builder: IrBuilder, bound: IrValue, given: IrValue, count: IrValue) -> IrValue:
    return _emit(builder, bound, given, count, gives_gil=False)


@fixed_intrinsic(types.int64, types.int64, types.int64, types.int64)
def _forward_apart(builder: IrBuilder, bound: IrValue, given: IrValue, count: IrValue) -> IrValue:
    return _emit(builder, bound, given, count, gives_gil=True)


@jit(nogil=False)
def forward(bound: int, given: int, count: int) -> Any:
    """Call a kernel with the GIL held: the C function ``(self, arguments, how many)`` that entries share."""
    return _forward(bound, given, count)


@jit(nogil=False)
def forward_apart(bound: int, given: int, count: int) -> Any:
    """Call a kernel and give the GIL away while it runs; else as :func:`forward`."""
    return _forward_apart(bound, given, count)


class _Method(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_methods: list[_Method] = []  # which live as long as the functions made of them


def _made(function: Dispatcher, integers: int, shared: Any) -> EntryPoint:
    assert integers <= MOST
    name = str(getattr(function, "__name__", "kernel")).encode()
    method = _Method(name, native_address(shared, 3), _FASTCALL, None)
    _methods.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: EntryPoint = make(ctypes.addressof(method), native_address(function, integers), None)
    return made


def quick_entry(function: Dispatcher, integers: int) -> EntryPoint:
    """Return an entry point as :func:`emu.kernels.core.jit.entry` does, of a kernel that is called with the GIL held.

    It checks nothing: an argument that is no integer raises ``TypeError``, another number of them is not noticed.

    Args:
        function: A kernel made by :func:`emu.kernels.core.jit.jit`, which returns an integer and never raises.
        integers: Number of its arguments, all ``int64``: at most ``MOST``.
    """
    return _made(function, integers, forward)


def quick_entry_apart(function: Dispatcher, integers: int) -> EntryPoint:
    """Return an entry point as :func:`quick_entry` does, which gives the GIL away while the kernel runs."""
    return _made(function, integers, forward_apart)


def quick_entry_when_called(function: Dispatcher, integers: int) -> EntryPoint:
    """Return :func:`quick_entry`, made at its first call as that of :func:`emu.kernels.core.jit.entry_when_called`."""
    return entry_when_called(function, integers, quick_entry)


def quick_entry_apart_when_called(function: Dispatcher, integers: int) -> EntryPoint:
    """Return :func:`quick_entry_apart`, made at its first call in the same way."""
    return entry_when_called(function, integers, quick_entry_apart)
