"""StableHLO's collectives on a group of a World: arrays of any dtype, along any dimension.

A World's collectives take and give rows along the first dimension. Where that is what the operation
means, they get the arrays as they are. Elsewhere every member reads what it needs out of the others'
inputs, which lie in the symmetric heap or are copied there first; small arrays, and those of a world
with an emulated link, are rearranged around a World's collective instead.

Reductions combine in the order of the group, and every member gets the same bits: float32 and float64
in their own precision, bfloat16, whose range is float32's, in float32 with one rounding at the end. What
a World cannot reduce as the reference does (sums of float16, which may overflow on the way; regions of
several operations; small formats) is folded by the reference, each member a part. Of zeros with
different signs a maximum or minimum gives the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from emu.comm.arrays import Bytes
from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.in_place import is_in_heap, read_in_place
from emu.comm.world.staging import DIRECT_BYTES, FLAT_BYTES
from emu.kernels.reduce import CODES
from emu.stablehlo.compiled.reducers import Reducer
from emu.stablehlo.reference.elementwise import convert
from emu.stablehlo.reference.values import Array

_CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

_scratch: WeakKeyDictionary[Group, SymmetricArray] = WeakKeyDictionary()
"""Symmetric memory of each group, for inputs that others must read and that lie elsewhere."""


def as_words(x: Array) -> Array:
    """Return an array as a flat one of integers that a World carries; a view where ``x`` is dense."""
    carrier = np.dtype(_CARRIERS.get(x.dtype.itemsize, np.uint64))
    return np.ascontiguousarray(x).reshape(-1).view(carrier)


class _Output:
    """A dense array in the place of an output, which may have any strides."""

    def __init__(self, out: Array) -> None:
        self.out = out
        self.dense = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)

    @property
    def words(self) -> Array:
        """The array as integers."""
        return as_words(self.dense)

    def finish(self) -> None:
        """Copy to the output if that is elsewhere."""
        if self.dense is not self.out:
            self.out[...] = self.dense


# Movements


def permute(group: Group, x: Array, out: Array, pairs: Sequence[tuple[int, int]]) -> None:
    """Send arrays along pairs of members; who gets nothing has zeros."""
    output = _Output(out)
    group.permute(as_words(x), pairs, out=output.words)
    output.finish()


def broadcast(group: Group, x: Array, out: Array) -> None:
    """Send the first member's array to all."""
    output = _Output(out)
    group.broadcast(as_words(x), 0, out=output.words)
    output.finish()


def all_gather(group: Group, x: Array, out: Array, dimension: int) -> None:
    """Concatenate the arrays of all members along a dimension."""
    outer, n = math.prod(x.shape[:dimension]), group.n_pes
    output = _Output(out)
    if outer == 1:
        group.all_gather(as_words(x), out=output.words.reshape(n, -1))
        output.finish()
        return
    rows = output.words.reshape(outer, n, -1)
    source = as_words(x)
    if not _reads_in_place(group, source):
        rows[...] = group.all_gather(source).reshape(n, outer, -1).transpose(1, 0, 2)
    else:

        def copy(pe: int, data: Bytes) -> None:
            rows[:, pe] = data.view(source.dtype).reshape(outer, -1)

        _read(group, "all_gather", source, (dimension, outer), copy)
    output.finish()


def all_to_all(group: Group, x: Array, out: Array, split: int, concat: int) -> None:
    """Cut arrays along a dimension, send a part to each member, and concatenate along a dimension."""
    n, my = group.n_pes, group.my_pe
    output = _Output(out)
    if split == concat and math.prod(x.shape[:split]) == 1:
        group.all_to_all(as_words(x).reshape(n, -1), out=output.words.reshape(n, -1))
        output.finish()
        return
    words = np.ascontiguousarray(x)
    tail = (words.dtype.itemsize // as_words(words).itemsize,)
    cut = (*x.shape[:split], n, x.shape[split] // n, *x.shape[split + 1 :], *tail)
    block = (*cut[:split], *cut[split + 1 : -1])
    joined = (*block[:concat], n, *block[concat:], *tail)
    parts = output.words.reshape(joined)
    source = as_words(words)
    if not _reads_in_place(group, source):
        rows = np.moveaxis(source.reshape(cut), split, 0)
        found = group.all_to_all(rows.reshape(n, -1))
        parts[...] = np.moveaxis(found.reshape(n, *block, *tail), 0, concat)
    else:

        def copy(pe: int, data: Bytes) -> None:
            theirs = data.view(source.dtype).reshape(cut)
            np.moveaxis(parts, concat, 0)[pe] = np.moveaxis(theirs, split, 0)[my]

        _read(group, "all_to_all", source, (split, concat), copy)
    output.finish()


def _reads_in_place(group: Group, source: Array) -> bool:
    return source.nbytes >= DIRECT_BYTES and group.link is None


def _read(
    group: Group,
    kind: str,
    source: Array,
    details: tuple[int, ...],
    copy: Callable[[int, Bytes], None],
) -> None:
    """Have every member copy out of the others' inputs, which are brought into the heap if need be."""
    if not is_in_heap(group, source):
        staged = _scratch_of(group, source.nbytes)[: source.nbytes].view(source.dtype)
        staged[...] = source
        source = staged
    read_in_place(group, kind, source, details, copy)


def _scratch_of(group: Group, nbytes: int) -> Array:
    """Return symmetric memory of a group, which the next call may overwrite."""
    known = _scratch.get(group)
    if known is None or known.nbytes < nbytes:
        if known is not None:
            known.free()
        # Members need the same memory in the same order: they call the same collectives.
        size = 1 << (nbytes - 1).bit_length()
        known = group.alloc(size, np.uint8, key=f"stablehlo.collectives.{size}", poison=False)
        _scratch[group] = known
    return known.local


# Reductions


def all_reduce(group: Group, x: Array, out: Array, reducer: Reducer) -> None:
    """Combine the arrays of all members."""
    output = _Output(out)
    source = np.ascontiguousarray(convert(x, reducer.dtype)).reshape(-1)
    if reducer.name is not None and output.dense.dtype == reducer.dtype:
        flat = output.dense.reshape(-1)
        group.all_reduce(_parts(source), reducer.name, out=_parts(flat))
    else:
        output.dense.reshape(-1)[...] = _folded(group, source, reducer)
    output.finish()


def reduce_scatter(group: Group, x: Array, out: Array, dimension: int, reducer: Reducer) -> None:
    """Combine the arrays of all members, and give each a part along a dimension."""
    n = group.n_pes
    output = _Output(out)
    outer = math.prod(x.shape[:dimension])
    whole = np.ascontiguousarray(convert(x, reducer.dtype)).reshape(outer, n, -1)
    # The part of each member, in a row.
    rows = whole.reshape(n, -1) if outer == 1 else _rows(group, whole)
    if reducer.name is not None and output.dense.dtype == reducer.dtype:
        flat = output.dense.reshape(-1)
        group.reduce_scatter(_parts(rows), reducer.name, out=_parts(flat))
    else:
        given = as_words(rows).reshape(n, -1)
        parts = group.all_to_all(given).reshape(-1).view(reducer.dtype).reshape(n, -1)
        output.dense.reshape(-1)[...] = reducer.fold(list(parts))
    output.finish()


def _rows(group: Group, whole: Array) -> Array:
    """Return ``[outer, member, rest]`` as ``[member, outer * rest]``."""
    turned = whole.transpose(1, 0, 2)
    if whole.nbytes < DIRECT_BYTES or whole.dtype not in CODES:
        return turned.reshape(len(turned), -1)
    staged = _scratch_of(group, whole.nbytes)[: whole.nbytes].view(whole.dtype)
    staged.reshape(turned.shape)[...] = turned
    return staged.reshape(len(turned), -1)


def _parts(x: Array) -> Array:
    """Return complex numbers as real ones along the last dimension."""
    if x.dtype.kind != "c":
        return x
    real = np.dtype(np.float32 if x.dtype.itemsize == 8 else np.float64)
    return x.view(real)


def _folded(group: Group, source: Array, reducer: Reducer) -> Array:
    """Reduce a flat array with the reference: each member a part of it, and all of a small one."""
    n = group.n_pes
    if source.nbytes <= FLAT_BYTES:
        rows = group.all_gather(as_words(source)).reshape(-1).view(source.dtype)
        return reducer.fold(list(rows.reshape(n, -1)))
    share = -(-source.size // n)
    padded = np.zeros(share * n, source.dtype)
    padded[: source.size] = source
    parts = group.all_to_all(as_words(padded).reshape(n, -1))
    mine = reducer.fold(list(parts.reshape(-1).view(source.dtype).reshape(n, share)))
    found = group.all_gather(as_words(mine))
    return found.reshape(-1).view(mine.dtype)[: source.size]
