"""Fast path for small tiles: from Python to the copy in one call, with an inline cache of access plans.

Reading six attributes of two arrays in Python takes longer than copying a small tile. So a kernel reads
shape, strides, dtype and flags out of the ndarray objects, and finds the plan in a cache where an earlier
call left it after all checks. A miss, or anything unexpected, is left to the caller. The kernel holds the
GIL while it reads the cache, and the cache is written under the GIL.
"""

from __future__ import annotations

import numpy as np

from emu.kernels.core.address import as_pointer
from emu.kernels.core.annotations import Array, CArray, Number
from emu.kernels.core.jit import carray, jit
from emu.kernels.strided.access_plan import (
    SOURCE_HIGH,
    SOURCE_LOW,
    TARGET_HIGH,
    TARGET_LOW,
    WIDTH,
    WORDS,
    AccessPlan,
)
from emu.kernels.strided.add import add_strided
from emu.kernels.strided.copy import copy_strided
from emu.kernels.strided.odometer import plan_words

DONE, MISS = 0, 1
"""Results of :func:`set_cached` and :func:`add_cached`."""

# NumPy's C API publishes how an ndarray object begins, and keeps it: Python's object header, which ends
# with the type, then these. Offsets in bytes.
_HEAD = object.__basicsize__
_TYPE = _HEAD - 8
_DATA, _RANK, _SHAPE, _STRIDES = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 24
_DTYPE, _FLAGS = _HEAD + 40, _HEAD + 48
_WRITEABLE = 0x0400

_MAX_RANK = 8
_SLOTS = 512
# An entry: id() of the dtype, rank, kind, shape and both strides, and the plan.
_KIND = 2
_KEY = 3 + 3 * _MAX_RANK
_ENTRY = _KEY + WORDS


class InlineCache:
    """Plans of small tiles, by the layout of a pair of arrays.

    Attributes:
        address: What the kernels take.
    """

    def __init__(self) -> None:
        self._words = np.zeros((1 + _SLOTS, _ENTRY), np.int64)
        self._words[0, 0] = id(np.ndarray)
        self._dtypes: dict[
            int, np.dtype[np.generic]
        ] = {}  # alive, so that no other gets their id()
        self.address = int(self._words.ctypes.data)

    def keep(
        self,
        target: Array,
        source: Array,
        kind: int,
        plan: AccessPlan,
    ) -> None:
        """Keep the plan of a pair of arrays for which all was checked but their addresses."""
        if type(target) is not np.ndarray or type(source) is not np.ndarray:
            return
        rank = target.ndim
        entry = np.zeros(_ENTRY, np.int64)
        entry[:3] = id(target.dtype), rank, kind
        for part, numbers in enumerate((target.shape, target.strides, source.strides)):
            start = 3 + part * _MAX_RANK
            entry[start : start + rank] = numbers
        entry[_KEY:] = plan.words
        slot = slot_of(id(target), id(source))
        self._dtypes[slot] = target.dtype
        self._words[slot] = entry


@jit()
def _word(address: int) -> Number:
    return carray(as_pointer(address), (1,), np.int64)[0]


@jit()
def _half(address: int) -> Number:
    return np.int64(carray(as_pointer(address), (1,), np.int32)[0])


@jit()
def _list(address: int) -> CArray:
    return carray(as_pointer(_word(address)), (_MAX_RANK,), np.int64)


@jit()
def slot_of(target: int, source: int) -> int:
    """Return the slot of the plan for two ndarrays, given by their ``id()``."""
    shape, strides, steps = (
        _list(target + _SHAPE),
        _list(target + _STRIDES),
        _list(source + _STRIDES),
    )
    mixed = np.uint64(_word(target + _DTYPE))
    for axis in range(_half(target + _RANK)):
        mixed = (mixed ^ np.uint64(shape[axis])) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ np.uint64(strides[axis])) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed = (mixed ^ np.uint64(steps[axis])) * np.uint64(0x165667B19E3779F9)
        mixed ^= mixed >> np.uint64(32)
    return 1 + int(mixed % np.uint64(_SLOTS))


@jit()
def _find(target: int, source: int, cache: int) -> int:
    """Return the address of the entry for two objects, or 0."""
    array_type = _word(cache)  # not a constant: compiled code is kept, addresses change
    if _word(target + _TYPE) != array_type or _word(source + _TYPE) != array_type:
        return 0
    rank = _half(target + _RANK)
    if (
        rank != _half(source + _RANK)
        or not 1 <= rank <= _MAX_RANK
        or _word(target + _DTYPE) != _word(source + _DTYPE)
        or not _half(target + _FLAGS) & _WRITEABLE
    ):
        return 0
    found = cache + 8 * _ENTRY * slot_of(target, source)
    key = carray(as_pointer(found), (_KEY,), np.int64)
    if key[0] != _word(target + _DTYPE) or key[1] != rank:
        return 0
    shape, strides, steps = (
        _list(target + _SHAPE),
        _list(target + _STRIDES),
        _list(source + _STRIDES),
    )
    extents = _list(source + _SHAPE)
    for axis in range(rank):
        if (
            shape[axis] != key[3 + axis]
            or extents[axis] != key[3 + axis]
            or strides[axis] != key[3 + _MAX_RANK + axis]
            or steps[axis] != key[3 + 2 * _MAX_RANK + axis]
        ):
            return 0
    return found


@jit()
def ranges_meet(target: int, source: int, plan: int) -> bool:
    """Return whether the bytes between the ends of two arrays overlap, given their first elements."""
    words = plan_words(plan)
    meet: bool = (target + words[TARGET_LOW] < source + words[SOURCE_HIGH]) and (
        source + words[SOURCE_LOW] < target + words[TARGET_HIGH]
    )
    return meet


@jit(nogil=False)
def set_cached(target: int, source: int, cache: int) -> int:
    """Copy between two ndarrays, given by their ``id()``, if their plan is cached."""
    found = _find(target, source, cache)
    if not found:
        return MISS
    plan, t, s = found + 8 * _KEY, _word(target + _DATA), _word(source + _DATA)
    if ranges_meet(t, s, plan):
        return MISS
    copy_strided(t, s, plan)
    return DONE


@jit(nogil=False)
def add_cached(target: int, source: int, cache: int) -> int:
    """Add; as :func:`set_cached`."""
    found = _find(target, source, cache)
    if not found:
        return MISS
    plan, t, s = found + 8 * _KEY, _word(target + _DATA), _word(source + _DATA)
    if ranges_meet(t, s, plan) or (t | s) & (plan_words(plan)[WIDTH] - 1):
        return MISS
    add_strided(_word(found + 8 * _KIND), t, s, plan)
    return DONE


@jit()
def _fields(array: int) -> tuple[int, ...]:
    return (
        _word(array + _TYPE),
        _half(array + _RANK),
        _list(array + _SHAPE)[0],
        _list(array + _STRIDES)[0],
        _word(array + _DTYPE),
        (_half(array + _FLAGS) & _WRITEABLE) != 0,
    )


def layout_is_known() -> bool:
    """Return whether ndarray objects are laid out as the kernels here read them."""
    frozen = np.zeros(3, np.int8)
    frozen.flags.writeable = False
    samples: tuple[Array, ...] = (frozen, np.zeros((4, 6), np.float32)[1:, ::-2])
    return all(
        _fields(id(a))
        == (id(type(a)), a.ndim, a.shape[0], a.strides[0], id(a.dtype), a.flags.writeable)
        for a in samples
    )
