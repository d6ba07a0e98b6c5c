"""Tiled stores: SET and ADD of an N-d tile into strided memory.

A tile is a view: where it lies in a bigger array is said by slicing that array.

    from emu.kernels.tiles import add_tile, set_tile

    set_tile(image[8:16, ::2], block)     # image[8:16, ::2] = block
    add_tile(image[8:16, ::2], block.T)   # image[8:16, ::2] += block.T

Both go at the speed of memory where the layouts allow it: dense runs are moved as such, and a
transposed source is read and written by whole cache lines. Neither takes a lock; a tile that others
add to at the same time is the business of ``emu.comm`` (``put`` with ``AtomicOp.ADD``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from emu.kernels.core.address import array_data
from emu.kernels.core.annotations import Array, EntryPoint
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import KINDS
from emu.kernels.core.jit import entry, jit
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.access_plan import WIDTH, AccessPlan, add_plan, copy_plan
from emu.kernels.strided.add import add_strided
from emu.kernels.strided.copy import copy_strided
from emu.kernels.strided.fastpath import (
    MISS,
    InlineCache,
    add_cached,
    layout_is_known,
    ranges_meet,
    set_cached,
)
from emu.kernels.strided.odometer import plan_words
from emu.kernels.strided.overlap import lies_apart, shares_memory

MAX_RANK = 8
"""Most axes of a tile."""

FLOAT8 = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
)
"""The 8-bit floating-point dtypes, which :func:`set_tile` takes too."""

_SET_DTYPES = frozenset((*KINDS, *FLOAT8))
_SHORT_BYTES = 1 << 15  # a call that is over before another thread could be woken keeps the GIL
_LARGEST = 1 << 20  # elements of a target whose addresses are compared one by one

_DONE, _OVERLAP, _MISALIGNED = range(3)


@jit()
def _set(target: int, source: int, plan: int, apart: int) -> int:
    """Copy between the ndarrays with these ``id()``; say what is in the way."""
    t, s = array_data(target), array_data(source)
    if not apart and ranges_meet(t, s, plan):
        return _OVERLAP
    copy_strided(t, s, plan)
    return _DONE


@jit()
def _add(kind: int, target: int, source: int, plan: int, apart: int, aligned: int) -> int:
    t, s = array_data(target), array_data(source)
    if not apart and ranges_meet(t, s, plan):
        return _OVERLAP
    if not aligned and (t | s) & (plan_words(plan)[WIDTH] - 1):
        return _MISALIGNED
    add_strided(kind, t, s, plan)
    return _DONE


def _not_yet(target: int, source: int, cache: int) -> int:
    """Stand in for the kernels of ``emu.kernels.strided.fastpath`` until a first tile has loaded them."""
    return MISS


_set_cached: Callable[[int, int, int], int] = _not_yet
_add_cached: Callable[[int, int, int], int] = _not_yet
_sets, _adds = InlineCache(), InlineCache()


@functools.cache
def _entries() -> tuple[EntryPoint, EntryPoint]:
    """Compile or load the kernels: those for a SET and an ADD after all checks."""
    global _set_cached, _add_cached
    if layout_is_known():
        _set_cached, _add_cached = entry(set_cached, 3), entry(add_cached, 3)
    return entry(_set, 4), entry(_add, 6)


@functools.lru_cache(maxsize=4096)
def _checked(
    add: bool,
    dtype: np.dtype[np.generic],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    source_dtype: np.dtype[np.generic],
    source_shape: tuple[int, ...],
    source_strides: tuple[int, ...],
) -> AccessPlan | None:
    """Check all that does not depend on the addresses.

    Returns:
        The plan; None for a tile without elements.
    """
    if not 1 <= len(shape) <= MAX_RANK:
        raise ArgumentError(f"target must have rank 1 to {MAX_RANK}, but got rank {len(shape)}")
    if dtype not in (KINDS if add else _SET_DTYPES):
        eight = "" if add else ", or 8-bit floating point"
        raise ArgumentError(
            "target must have dtype bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 "
            f"or float64{eight}, in native byte order, but got {dtype}"
        )
    if source_shape != shape:
        raise ArgumentError(f"source must have target's shape {shape}, but got {source_shape}")
    if source_dtype != dtype:
        raise ArgumentError(f"source must have target's dtype {dtype}, but got {source_dtype}")
    if 0 in shape:
        return None
    size = dtype.itemsize
    apart = lies_apart(shape, strides, size, at_most=_LARGEST)
    if apart is None:
        raise ArgumentError(
            "target must be an array whose elements are known to lie apart, but got strides "
            f"{strides} for shape {shape}, too large to compare them one by one"
        )
    if not apart:
        raise ArgumentError(
            f"target must not overlap itself, but got strides {strides} for shape {shape} "
            f"and elements of {size} bytes"
        )
    return (add_plan if add else copy_plan)(shape, strides, source_strides, size)


def _check(add: bool, target: Array, source: Array) -> AccessPlan | None:
    for name, value in (("target", target), ("source", source)):
        check.ndarray(name, value)
    check.writable("target", target)
    return _checked(
        add, target.dtype, target.shape, target.strides, source.dtype, source.shape, source.strides
    )


def _refuse_overlap(target: Array, source: Array) -> None:
    shared = shares_memory(target, source)
    if shared is None:
        raise ArgumentError(
            "source must be known to share no memory with target, but their strides "
            f"{source.strides} and {target.strides} are too tangled to tell"
        )
    if shared:
        raise ArgumentError(
            "source must share no memory with target, but got overlapping arrays; pass source.copy()"
        )


def set_tile(target: Array, source: Array) -> None:
    """Copy a tile: ``target[...] = source``.

    Args:
        target: Where the tile goes: a writable array of rank 1 to 8, as a rule a slice of a bigger one.
            Any strides, negative ones too, as long as no element lies on another.
        source: The tile, of the same shape and dtype; any strides. It shares no memory with
            ``target``. The dtype is bool, an integer of 8 to 64 bits, float16, bfloat16, float32,
            float64 or one of the 8-bit floating-point dtypes of ml_dtypes, in native byte order.

    Raises:
        ArgumentError: An argument is not so. Nothing was stored.
    """
    if _set_cached(id(target), id(source), _sets.address):
        _set_checked(target, source)


def add_tile(target: Array, source: Array) -> None:
    """Add a tile: ``target[...] += source``, rounding once in the dtype.

    Integers wrap, booleans are or-ed, fp16 and bf16 are added in fp32 and rounded to nearest, ties to
    even.

    Args:
        target: As of :func:`set_tile`.
        source: As of :func:`set_tile`; 8-bit floating point is not taken.

    Raises:
        ArgumentError: An argument is not so. Nothing was changed.
    """
    if _add_cached(id(target), id(source), _adds.address):
        _add_checked(target, source)


def _set_checked(target: Array, source: Array) -> None:
    plan = _check(False, target, source)
    if plan is None:
        return
    store, _ = _entries()
    if store(id(target), id(source), plan.address, 0):
        _refuse_overlap(target, source)
        store(id(target), id(source), plan.address, 1)
    elif target.nbytes <= _SHORT_BYTES:
        _sets.keep(target, source, 0, plan)


def _add_checked(target: Array, source: Array) -> None:
    plan = _check(True, target, source)
    if plan is None:
        return
    _, add = _entries()
    kind = KINDS[target.dtype]
    state = add(kind, id(target), id(source), plan.address, 0, 0)
    if state == _DONE and target.nbytes <= _SHORT_BYTES:
        _adds.keep(target, source, kind, plan)
    if state == _OVERLAP:
        _refuse_overlap(target, source)
        state = add(kind, id(target), id(source), plan.address, 1, 0)
    if state == _MISALIGNED:
        plan = add_plan(
            target.shape, target.strides, source.strides, target.itemsize, aligned=False
        )
        add(kind, id(target), id(source), plan.address, 1, 1)


__all__ = ["FLOAT8", "MAX_RANK", "add_tile", "set_tile"]
