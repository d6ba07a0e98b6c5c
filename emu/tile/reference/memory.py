"""Memory of programs: addresses of this process, element by element.

An access touches the bytes of the lanes whose mask is true and no others. Lanes are taken in row-major
order, so that of several stores to one address the last wins, and atomics see those before them.
"""

from __future__ import annotations

import ctypes

import numpy as np

from emu.tile.ir import Operation, Value
from emu.tile.ops import Code, Rmw
from emu.tile.reference.elementwise import ELEMENTWISE, numpy_dtype
from emu.tile.reference.rounding import Array
from emu.tile.types import Pointer, element_of

_COMBINING = {
    Rmw.ADD: Code.ADD,
    Rmw.MIN: Code.MIN,
    Rmw.MAX: Code.MAX,
    Rmw.AND: Code.AND,
    Rmw.OR: Code.OR,
    Rmw.XOR: Code.XOR,
}


def _target(operation: Operation) -> np.dtype[np.generic]:
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, Pointer)
    return numpy_dtype(pointer.element)


def _bytes_of(addresses: Array, size: int) -> tuple[Array, Array]:
    """Return a view of the bytes from the first address to the last, and each element's indices."""
    # One view over the span, of which only the bytes at ``indices`` are touched: the rest may not be mapped.
    first, last = int(addresses.min()), int(addresses.max())
    if first == 0:
        raise ValueError("a pointer must not be null where it is read or written")
    span = (ctypes.c_ubyte * (last - first + size)).from_address(first)
    offsets = (addresses - np.uint64(first)).astype(np.int64)
    return np.ctypeslib.as_array(span), offsets[:, None] + np.arange(size)


def read(addresses: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return the elements at a list of addresses."""
    view, indices = _bytes_of(addresses, dtype.itemsize)
    raw = view[indices]
    if dtype == np.bool_:
        return np.asarray(raw[:, 0] != 0)
    return np.ascontiguousarray(raw).view(dtype)[:, 0]


def write(addresses: Array, values: Array) -> None:
    """Write elements to a list of addresses; of several for one address the last stays."""
    view, indices = _bytes_of(addresses, values.dtype.itemsize)
    # NumPy assigns in order: of several values for one address the last stays.
    view[indices] = np.ascontiguousarray(values)[:, None].view(np.uint8)


def _active(pointer: Array, mask: Array | None) -> Array:
    return np.ones(pointer.shape, np.bool_) if mask is None else mask


def load(
    operation: Operation, pointer: Array, mask: Array | None = None, other: Array | None = None
) -> Array:
    """Apply LOAD."""
    dtype = _target(operation)
    result = np.zeros(pointer.shape, dtype) if other is None else other.copy()
    active = _active(pointer, mask)
    if active.any():
        result[active] = read(pointer[active], dtype)
    return result


def store(operation: Operation, pointer: Array, value: Array, mask: Array | None = None) -> None:
    """Apply STORE."""
    active = _active(pointer, mask)
    if active.any():
        write(pointer[active], value[active])


def atomic_rmw(
    operation: Operation, pointer: Array, value: Array, mask: Array | None = None
) -> Array:
    """Apply ATOMIC_RMW, lane by lane."""
    kind = Rmw(operation.attributes["kind"])
    combining = None
    if kind is not Rmw.EXCHANGE:
        scalar = Value(element_of(operation.operands[1].type))
        combining = Operation(_COMBINING[kind], (scalar, scalar), (scalar.type,))
    # One lane after the other, so that those with one address see each other's updates.
    result = np.zeros(pointer.shape, value.dtype)
    for lane in np.argwhere(_active(pointer, mask)):
        where = tuple(lane)
        address = np.asarray([pointer[where]])
        old = read(address, value.dtype)
        new = np.asarray([value[where]])
        if kind in (Rmw.MIN, Rmw.MAX) and new.dtype.kind == "f":
            new = _extreme(kind, old, new)
        elif combining is not None:
            new = ELEMENTWISE[combining.code](combining, old, new)
        write(address, new)
        result[where] = old[0]
    return result


def _extreme(kind: Rmw, old: Array, new: Array) -> Array:
    """Return the smaller or larger float by the order of their bits: a NaN is beyond the infinity of its sign.

    Devices compare them so, by atomic operations of integers.
    """
    keys = []
    for values in (old, new):
        bits = values.view(f"i{values.dtype.itemsize}")
        keys.append(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max))
    wins = keys[1] > keys[0] if kind is Rmw.MAX else keys[1] < keys[0]
    return np.where(wins, new, old)


def atomic_cas(operation: Operation, pointer: Array, expected: Array, new: Array) -> Array:
    """Apply ATOMIC_CAS, lane by lane; values are compared bit by bit, floats too."""
    result = np.zeros(pointer.shape, new.dtype)
    for lane in np.ndindex(pointer.shape):
        address = np.asarray([pointer[lane]])
        old = read(address, new.dtype)
        if old[0].tobytes() == expected[lane].tobytes():
            write(address, np.asarray([new[lane]]))
        result[lane] = old[0]
    return result
