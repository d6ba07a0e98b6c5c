"""Temporary memory of operators, kept from call to call."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np

from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group
from emu.kernels.matmul import Packed, pack
from emu.mc2.arguments import Array

_symmetric: WeakKeyDictionary[Group, dict[str, SymmetricArray]] = WeakKeyDictionary()


class _Own(threading.local):
    """Memory of one thread: two threads may call operators of two groups at the same time."""

    def __init__(self) -> None:
        self.private: dict[str, Array] = {}
        self.packed: dict[int, Packed] = {}


_own = _Own()
_LEAST = 1 << 12  # elements of symmetric memory
_KEEP_BYTES = 1 << 28  # larger private memory is released after the call
_lock = threading.Lock()


def _capacity(elements: int) -> int:
    return max(_LEAST, 1 << (elements - 1).bit_length())


def symmetric(
    group: Group, purpose: str, elements: int, dtype: np.dtype[np.generic]
) -> SymmetricArray:
    """Return uninitialised symmetric memory of ``elements`` elements.

    Every member calls it with the same arguments, and none waits for another. The memory belongs to this group
    and purpose until the next call: peers must have read it by then.
    """
    capacity = _capacity(elements)
    with _lock:
        kept = _symmetric.setdefault(group, {})
        name = f"mc2.{purpose}.{dtype}"
        array = kept.get(name)
        if array is None or array.size < capacity:
            # The old memory returns to the heap once every member has freed it.
            if array is not None:
                array.free()
            array = group.alloc((capacity,), dtype, name=name, key=f"{name}.{capacity}")
            kept[name] = array
        return array[:elements]


def private(purpose: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Return uninitialised memory of this thread, valid until its next call for this purpose."""
    elements = int(np.prod(shape))
    name = f"{purpose}.{dtype}"
    array = _own.private.get(name)
    if array is None or array.size < elements:
        array = np.empty(elements, dtype)
        if array.nbytes <= _KEEP_BYTES:
            _own.private[name] = array
    return array[:elements].reshape(shape)


def packed(weight: Array, place: int = 0) -> Packed:
    """Return a weight packed for many products, valid until the next call for this place."""
    kept = _own.packed
    kept[place] = pack(weight, reuse=kept.get(place))
    return kept[place]
