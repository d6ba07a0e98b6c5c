"""put and get: from arguments to one kernel call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.comm import entries, signals
from emu.comm.array import SymmetricArray
from emu.comm.errors import ArgumentError
from emu.kernels.tiles import plan

if TYPE_CHECKING:
    from emu.comm.world import Group


@functools.lru_cache(maxsize=4096)
def flat_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
) -> tuple[int, int, np.ndarray[Any, np.dtype[np.int64]], int]:
    """:func:`emu.kernels.tiles.plan` as the kernels take it: (run, runs, flat triples, rank)."""
    run, outer = plan(shape, target_strides, source_strides, itemsize)
    runs = 1
    for extent, _, _ in outer:
        runs *= extent
    return run, runs, np.array([n for axis in outer for n in axis], np.int64), len(outer)


def window(
    array: SymmetricArray, offsets: tuple[int, ...] | list[int] | None, shape: tuple[int, ...]
) -> int:
    """Check that ``shape`` at ``offsets`` lies in ``array``; return the byte offset of its start.

    Raises:
        ArgumentError: Rank, offset or extent out of bounds.
    """
    if offsets is None:
        if shape == array.shape:
            return array.offset
        raise ArgumentError(
            f"the tile must have the array's shape {array.shape} when offsets is not given, "
            f"but got shape {shape}"
        )
    if len(offsets) != len(array.shape) or len(shape) != len(array.shape):
        raise ArgumentError(
            f"offsets and tile must have the array's rank {len(array.shape)}, but got "
            f"offsets {tuple(offsets)} and tile shape {shape}"
        )
    position = array.offset
    for axis, (start, extent, bound) in enumerate(zip(offsets, shape, array.shape, strict=True)):
        if start < 0 or start + extent > bound:
            raise ArgumentError(
                f"offsets[{axis}] must be in [0, {bound - extent}] for a tile of extent {extent} "
                f"in an axis of {bound}, but got {start}"
            )
        position += start * array.strides[axis]
    return position


def as_source(source: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return ``source`` as an ndarray of exactly ``dtype``.

    Python scalars and lists take the dtype; whatever has a dtype must have this one.
    """
    if isinstance(source, SymmetricArray):
        array = source.local
    elif isinstance(source, (bool, int, float, list, tuple)):
        array = np.asarray(source, dtype)
    else:
        array = np.asarray(source)
    if array.dtype != dtype:
        raise ArgumentError(f"src must have the dtype of dst, {dtype}, but got {array.dtype}")
    return array


def put(group: Group, dst: SymmetricArray, src: Any, pe: int, offsets: Any, add: bool) -> None:
    """Store a tile; the general path behind :meth:`Group.put`."""
    world_pe = group.route(dst, pe)
    source = as_source(src, dst.dtype)
    offset = window(dst, offsets, source.shape)
    if not source.size:
        return
    run, runs, outer, rank = flat_plan(source.shape, dst.strides, source.strides, dst.itemsize)
    if runs > 1 and _overlaps(group, source, world_pe, dst):
        source = source.copy()
        run, runs, outer, rank = flat_plan(source.shape, dst.strides, source.strides, dst.itemsize)
    me = group.me
    if add:
        if runs == 1:
            recovered = entries.add_dense(
                me, world_pe, offset, id(source), dst.kind, dst.itemsize, run * dst.itemsize
            )
        else:
            recovered = signals.add_tile(
                me, world_pe, offset, id(source), dst.kind, dst.itemsize, run, runs, outer, rank
            )
        if recovered:
            group.report_recovery(dst, world_pe)
    elif runs == 1:
        entries.put_dense(me, world_pe, offset, id(source), run * dst.itemsize)
    else:
        signals.put_tile(me, world_pe, offset, id(source), run * dst.itemsize, runs, outer, rank)


def _overlaps(
    group: Group, source: np.ndarray[Any, Any], world_pe: int, dst: SymmetricArray
) -> bool:
    """Say whether a strided source may lie in the memory that it is stored to."""
    address = source.__array_interface__["data"][0]
    start = group.segment.address
    if not start <= address < start + group.segment.layout.total:
        return False
    return np.may_share_memory(source, dst.on(dst.group.members.index(world_pe)))


def get(
    group: Group, src: SymmetricArray, pe: int, offsets: Any, shape: Any, out: Any
) -> np.ndarray[Any, Any]:
    """Fetch a tile; the general path behind :meth:`Group.get`."""
    world_pe = group.route(src, pe)
    if shape is None:
        if offsets is None:
            extent = src.shape
        else:
            if len(offsets) != src.ndim:
                raise ArgumentError(
                    f"offsets must have the array's rank {src.ndim}, but got {tuple(offsets)}"
                )
            extent = tuple(n - int(o) for n, o in zip(src.shape, offsets, strict=True))
    else:
        extent = tuple(int(n) for n in shape)
    if any(n < 0 for n in extent):
        raise ArgumentError(f"shape must not be negative, but got {extent}")
    offset = window(
        src, offsets if offsets is not None or extent == src.shape else (0,) * len(extent), extent
    )
    target = _target(out, extent, src.dtype)
    if target.size:
        run, runs, outer, rank = flat_plan(extent, target.strides, src.strides, src.itemsize)
        signals.get_tile(
            group.me, world_pe, offset, id(target), run * src.itemsize, runs, outer, rank
        )
    return target


def _target(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if out is None:
        return np.empty(shape, dtype)
    if isinstance(out, SymmetricArray):
        out = out.local
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = f"{out.shape} {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ArgumentError(
            f"out must be an ndarray of shape {shape} and dtype {dtype}, but got {got}"
        )
    if not out.flags.writeable:
        raise ArgumentError("out must be writable, but got a read-only array")
    return out
