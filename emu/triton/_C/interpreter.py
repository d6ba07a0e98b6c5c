"""``triton._C.libtriton.interpreter``: memory operations on arrays of addresses, lane by lane.

Addresses are ``uint64``; all arrays of a call have one shape, and may be views with any strides. Lanes whose mask is
false touch no memory.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from emu.tile.ops import Code, Rmw
from emu.tile.reference import memory
from emu.tile.types import FROM_NUMPY, DType, Kind
from emu.triton.interpreter import native

Array = np.ndarray[Any, Any]


class MEM_SEMANTIC(enum.Enum):
    """Order of an atomic operation with others; here each is in one order with all."""

    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQUIRE_RELEASE = 4


class RMW_OP(enum.Enum):
    """Kinds of atomic updates; those with F and U are of floats and unsigned integers."""

    ADD = 1
    FADD = 2
    AND = 3
    OR = 4
    XOR = 5
    XCHG = 6
    MAX = 7
    MIN = 8
    UMIN = 9
    UMAX = 10


_KINDS = {
    RMW_OP.ADD: Rmw.ADD,
    RMW_OP.FADD: Rmw.ADD,
    RMW_OP.AND: Rmw.AND,
    RMW_OP.OR: Rmw.OR,
    RMW_OP.XOR: Rmw.XOR,
    RMW_OP.XCHG: Rmw.EXCHANGE,
    RMW_OP.MAX: Rmw.MAX,
    RMW_OP.MIN: Rmw.MIN,
    RMW_OP.UMIN: Rmw.MIN,
    RMW_OP.UMAX: Rmw.MAX,
}
_UNSIGNED = (RMW_OP.UMIN, RMW_OP.UMAX)


def load(ptr: Array, mask: Array, other: Array, ret_dtype: Any) -> Array:
    """Return the elements at addresses; those of ``other`` where the mask is false."""
    _check("ptr, mask and other", ptr, mask, other)
    dtype = np.dtype(ret_dtype)
    result = np.array(np.broadcast_to(other, ptr.shape), dtype)
    active = np.asarray(mask, np.bool_)
    if active.any():
        result[active] = memory.read(np.asarray(ptr, np.uint64)[active], dtype)
    return result


def store(ptr: Array, value: Array, mask: Array) -> None:
    """Write elements to addresses; of several for one address the last in row-major order stays."""
    _check("ptr, value and mask", ptr, value, mask)
    active = np.asarray(mask, np.bool_)
    if active.any():
        memory.write(np.asarray(ptr, np.uint64)[active], np.asarray(value)[active])


def atomic_rmw(rmw_op: RMW_OP, ptr: Array, val: Array, mask: Array, sem: MEM_SEMANTIC) -> Array:
    """Update elements one after the other, and return what was there; 0 where the mask is false.

    Raises:
        TypeError: The dtype is not one of kernels, or ``sem`` is no MEM_SEMANTIC.
        ValueError: The shapes differ.
    """
    _check("ptr, val and mask", ptr, val, mask)
    _check_order(sem)
    if not isinstance(rmw_op, RMW_OP):
        raise TypeError(f"rmw_op must be an RMW_OP, but got {rmw_op!r}")
    values = np.asarray(val)
    element = _element(values.dtype)
    wanted = element
    if rmw_op in _UNSIGNED and element.kind is Kind.INT:
        wanted = element.as_unsigned()
    old = native.update(
        Code.ATOMIC_RMW,
        wanted,
        _KINDS[rmw_op].value,
        np.asarray(ptr, np.uint64),
        [values.astype(wanted.numpy)],
        np.asarray(mask, np.bool_),
    )
    return old.astype(values.dtype)


def atomic_cas(ptr: Array, cmp: Array, val: Array, sem: MEM_SEMANTIC) -> Array:
    """Write ``val`` where memory has the bits of ``cmp``, one after the other; return what was there.

    Raises:
        TypeError: The dtype is not one of kernels, or ``sem`` is no MEM_SEMANTIC.
        ValueError: The shapes differ.
    """
    _check("ptr, cmp and val", ptr, cmp, val)
    _check_order(sem)
    expected = np.asarray(cmp)
    new = np.asarray(val).astype(expected.dtype)
    return native.update(
        Code.ATOMIC_CAS,
        _element(expected.dtype),
        "",
        np.asarray(ptr, np.uint64),
        [expected, new],
        None,
    )


def _check(names: str, *arrays: Array) -> None:
    shapes = [np.shape(a) for a in arrays]
    if len(set(shapes)) != 1:
        raise ValueError(f"{names} must have one shape, but have {', '.join(map(str, shapes))}")


def _check_order(sem: object) -> None:
    if not isinstance(sem, MEM_SEMANTIC):
        raise TypeError(f"sem must be a MEM_SEMANTIC, but got {sem!r}")


def _element(dtype: np.dtype[Any]) -> DType:
    found = FROM_NUMPY.get(dtype)
    if found is None:
        raise TypeError(f"the dtype must be one that kernels know, but got {dtype}")
    return found
