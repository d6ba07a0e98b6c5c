"""General paths of ``put`` and ``get``: checks, an access plan, one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.sync import entry_points
from emu.comm.sync.signals import ARRANGE, GET, PUT
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.checks import check
from emu.kernels.core.messages import shown
from emu.kernels.strided.access_plan import AccessPlan, add_plan, copy_plan

_ARRANGED_BYTES = 4096  # from here on a transposed source is rearranged before it is added


def window(
    array: SymmetricArray,
    offsets: Sequence[int] | None,
    shape: tuple[int, ...],
    name: str = "src",
    of: str = "dst",
) -> int:
    """Check that ``shape`` at ``offsets`` lies in ``array``; return the byte offset of its start.

    Raises:
        ArgumentError: Rank, offset or extent out of bounds.
    """
    if offsets is None:
        if shape == array.shape:
            return array.offset
        raise ArgumentError(
            f"{name} must be a tile of {of}'s shape {array.shape} when offsets is not given, "
            f"but got shape {shown(shape)}"
        )
    if type(offsets) is not tuple:
        offsets = check.integers("offsets", offsets)
    if len(offsets) != len(array.shape) or len(shape) != len(array.shape):
        raise ArgumentError(
            f"offsets and {name} must have {of}'s rank {len(array.shape)}, but got "
            f"offsets {shown(offsets)} and tile shape {shown(shape)}"
        )
    position = array.offset
    for axis, (start, extent, bound) in enumerate(zip(offsets, shape, array.shape, strict=True)):
        if type(start) is not int:
            start = check.integer(f"offsets[{axis}]", start)
        if start < 0 or start + extent > bound:
            raise ArgumentError(
                f"offsets[{axis}] must be in [0, {bound - extent}] for a tile ({name}) of extent "
                f"{shown(extent)} in an axis of {bound} of {of}, but got {shown(start)}"
            )
        position += start * array.strides[axis]
    return position


def as_source(source: Input, dtype: np.dtype[np.generic]) -> Array:
    """Return ``source`` as an ndarray of exactly ``dtype``.

    Python scalars and lists take the dtype; whatever has a dtype must have this one.
    """
    if isinstance(source, SymmetricArray):
        array = source.local
    elif isinstance(source, (bool, int, float, list, tuple)):
        array = check.array("src", source, dtype)
    else:
        array = check.array("src", source)
    if array.dtype != dtype:
        raise ArgumentError(f"src must have the dtype of dst, {dtype}, but got {array.dtype}")
    return array


def put(
    group: Allocation,
    dst: SymmetricArray,
    src: Input,
    pe: int,
    offsets: Sequence[int] | None,
    add: bool,
) -> None:
    """Store a tile: the general path behind :meth:`Group.put`."""
    world_pe = group.route(dst, pe, "dst")
    source = as_source(src, dst.dtype)
    store(group, dst, source, (world_pe, window(dst, offsets, source.shape)), add)


def store(
    group: Allocation, dst: SymmetricArray, source: Array, place: tuple[int, int], add: bool
) -> None:
    """Store a tile that was checked.

    Args:
        group: The group of the call.
        dst: Array that it is stored to.
        source: The tile, of its dtype.
        place: World number of the PE, and offset of the tile's first element in its heap.
        add: Whether to add.
    """
    world_pe, offset = place
    if not source.size:
        return
    plan_of = _ordered_plan if add else copy_plan
    plan = plan_of(source.shape, dst.strides, source.strides, dst.itemsize)
    if not plan.dense and _overlaps(group, source, world_pe, dst):
        source = source.copy()
        plan = plan_of(source.shape, dst.strides, source.strides, dst.itemsize)
    me, nbytes = group.me, source.nbytes
    if add:
        if plan.crossed and nbytes >= _ARRANGED_BYTES:
            source = _arranged(me, source)
            plan = plan_of(source.shape, dst.strides, source.strides, dst.itemsize)
        if plan.dense:
            recovered = entry_points.add_dense(
                me, world_pe, offset, id(source), dst.kind, dst.itemsize, nbytes
            )
        else:
            recovered = entry_points.add_tile(
                me, world_pe, offset, id(source), dst.kind, plan.address
            )
        if recovered:
            group.report_recovery(dst, world_pe)
    elif plan.dense:
        entry_points.put_dense(me, world_pe, offset, id(source), nbytes)
    else:
        entry_points.move_tile(me, world_pe, offset, id(source), plan.address, PUT)


def _ordered_plan(
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    itemsize: int,
) -> AccessPlan:
    """Plan an ADD: in the order of the target's memory, so that each lock is taken once."""
    return add_plan(shape, target_strides, source_strides, itemsize, ordered=True)


def _arranged(me: int, source: Array) -> Array:
    """Copy a transposed source into C order before the locks: this order is slow to read it in."""
    copy = np.empty(source.shape, source.dtype)
    plan = copy_plan(source.shape, copy.strides, source.strides, source.itemsize)
    entry_points.move_tile(me, 0, id(copy), id(source), plan.address, ARRANGE)
    return copy


def _overlaps(group: Allocation, source: Array, world_pe: int, dst: SymmetricArray) -> bool:
    """Return whether a strided source may lie in the memory that it is stored to."""
    address = source.__array_interface__["data"][0]
    start = group.segment.address
    if not start <= address < start + group.segment.layout.total:
        return False
    return np.may_share_memory(source, dst.on(dst.group.members.index(world_pe)))


def get(
    group: Allocation,
    src: SymmetricArray,
    pe: int,
    offsets: Sequence[int] | None,
    shape: Sequence[int] | None,
    out: Output | None,
) -> Array:
    """Fetch a tile: the general path behind :meth:`Group.get`."""
    world_pe = group.route(src, pe, "src")
    offset, target = prepare_get(src, offsets, shape, out)
    if target.size:
        plan = copy_plan(target.shape, target.strides, src.strides, src.itemsize)
        if plan.dense:
            entry_points.get_dense(group.me, world_pe, offset, id(target), target.nbytes)
        else:
            entry_points.move_tile(group.me, world_pe, offset, id(target), plan.address, GET)
    return target


def prepare_get(
    src: SymmetricArray,
    offsets: Sequence[int] | None,
    shape: Sequence[int] | None,
    out: Output | None,
) -> tuple[int, Array]:
    """Check the tile that is to be fetched; return the offset of its first element, and the array to fill.

    Raises:
        ArgumentError: Rank, offset, extent or ``out`` is wrong.
    """
    if offsets is not None:
        if shape is None or type(offsets) is not tuple:  # else `window` looks at the entries
            offsets = check.integers("offsets", offsets)
        if len(offsets) != src.ndim:
            raise ArgumentError(
                f"offsets must have src's rank {src.ndim}, but got {shown(offsets)}"
            )
    name = "shape"
    if shape is not None:
        extent = check.integers("shape", shape)
    elif offsets is None:
        extent = src.shape
    else:  # up to the end; an offset beyond the end is refused by `window` below
        extent, name = tuple(max(n - o, 0) for n, o in zip(src.shape, offsets, strict=True)), "src"
    if any(n < 0 for n in extent):
        raise ArgumentError(f"shape must not be negative, but got {shown(extent)}")
    start = offsets if offsets is not None or extent == src.shape else (0,) * len(extent)
    offset = window(src, start, extent, name, "src")
    return offset, _target(out, extent, src.dtype)


def _target(out: Output | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
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
