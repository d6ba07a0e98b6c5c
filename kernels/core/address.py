"""Raw addresses in compiled code: typed arrays at them, memory moves, prefetches.

Shared memory is mapped at a different address in every process, so the kernels that PEs share take
integers. Dispatch from Python is cheapest for integers too: about 10 ns each, against 100 ns for an
array argument, and one compiled version serves every dtype, rank and layout.
"""

from __future__ import annotations

import ctypes

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.core.annotations import Array, Intrinsic, IrBuilder, IrValue
from emu.kernels.core.jit import carray, fixed_intrinsic, jit


@fixed_intrinsic(types.voidptr, types.int64)
def as_pointer(builder: IrBuilder, address: IrValue) -> IrValue:
    """Turn an address (``int64``) into a ``void *``."""
    return builder.inttoptr(address, cgutils.voidptr_t)


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64)
def _memmove(builder: IrBuilder, target: IrValue, source: IrValue, count: IrValue) -> None:
    i64 = ir.IntType(64)
    kind = ir.FunctionType(cgutils.voidptr_t, [cgutils.voidptr_t, cgutils.voidptr_t, i64])
    function = cgutils.get_or_insert_function(builder.module, kind, "memmove")
    pointers = [builder.inttoptr(a, cgutils.voidptr_t) for a in (target, source)]
    builder.call(function, [*pointers, count])


_LONG = 2048
"""The least bytes that glibc moves by ``rep movsb``."""


@jit()
def move_bytes(target: int, source: int, count: int) -> None:
    """``memmove(target, source, count)``, in which no element of up to eight bytes tears; ranges may overlap.

    Elements lie at multiples of their size, on both sides. ``rep movsb`` moves whole cache lines of the target,
    but what is behind the last of them by four bytes and fewer: another PE was seen to meet half of an
    eight-byte element there. So it gets whole lines only; shorter moves are loads and stores of vectors.
    """
    if count < _LONG or abs(target - source) < count:
        _memmove(target, source, count)
        return
    head = -target & 63
    whole = (count - head) & -64
    _memmove(target, source, head)
    _memmove(target + head, source + head, whole)
    _memmove(target + head + whole, source + head + whole, count - head - whole)


def emit_prefetch(builder: IrBuilder, address: IrValue, write: bool, closeness: int = 3) -> None:
    """Emit the instruction that fetches the cache line of an address (an LLVM ``i64``).

    Args:
        builder: What builds the code.
        address: Any address.
        write: Whether it is about to be written.
        closeness: 3 for the first-level cache, 2 for the second. Default: 3.
    """
    i32 = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
    hints = [ir.Constant(i32, n) for n in (int(write), closeness, 1)]  # 1: data
    builder.call(function, [builder.inttoptr(address, cgutils.voidptr_t), *hints])


def _prefetch(write: bool) -> Intrinsic:
    @fixed_intrinsic(types.void, types.int64)
    def prefetch(builder: IrBuilder, address: IrValue) -> None:
        emit_prefetch(builder, address, write)

    return prefetch


prefetch_line, prefetch_line_to_write = _prefetch(False), _prefetch(True)
"""Fetch the cache line of an address (``int64``); any address may be given, valid or not."""

# An ndarray object begins with Python's object header, and then the data pointer (NumPy's C API
# publishes that struct and keeps it stable). Reading it costs 5 ns; `array.ctypes.data` costs 800.
_DATA_FIELD = object.__basicsize__


@jit()
def array_data(array_object: int) -> int:
    """Return the data address of the ndarray whose ``id()`` is given."""
    address: int = carray(as_pointer(array_object + _DATA_FIELD), (1,), np.int64)[0]
    return address


@jit()
def aligned_data(array_object: int) -> int:
    """Return the address of the first whole cache line in the array whose ``id()`` is given."""
    address = array_data(array_object)
    return address + (-address & 63)


def _is_data_field_known() -> bool:
    samples: list[Array] = [
        np.zeros(3, np.int8),
        np.zeros((4, 4))[1:, 2:],
        np.zeros(2, np.float16),
    ]
    # Without the kernel above, which may have to be compiled first.
    fields = [ctypes.c_int64.from_address(id(a) + _DATA_FIELD).value for a in samples]
    return fields == [a.ctypes.data for a in samples]


def check_array_layout() -> None:
    """Raise ``ImportError`` where NumPy's object layout is not the one the kernels read."""
    if not _is_data_field_known():
        raise ImportError(
            "NumPy's array object must hold its data pointer right after the object header, "
            f"but NumPy {np.__version__} on this Python does not"
        )
