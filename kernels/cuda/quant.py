"""Quantise to int8 in device memory, plainly or scattered into a cache, and back.

All arithmetic is in fp32, each operation rounded by itself: a correctly rounded division (or a
multiplication), then an addition, then rounding to an integer, half to even. Nothing is fused. NaN
becomes 0; what is too large, infinities too, becomes -128 or 127.
Everything runs on the default stream, after what was put there before.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from emu.kernels.core.checks import check
from emu.kernels.core.messages import shown
from emu.kernels.cuda.arrays import DeviceArray, empty, place, to_device
from emu.kernels.cuda.checks import MAX_RANK, check_aligned, check_apart, check_written
from emu.kernels.cuda.device import cover, launch
from emu.kernels.cuda.geometry import FEW, ROW_LIMIT, joined_axes, packed, pieces
from emu.kernels.cuda.quant_checks import (
    check_factor,
    check_values,
    runs_apart,
)
from emu.kernels.cuda.quant_kernels import (
    CHANNEL_KINDS,
    CONVERT_KERNELS,
    LANES,
    SCATTER_KERNELS,
    VALUE_KINDS,
    Channel,
    ChannelWalk,
    Grid,
    Indices,
    Segments,
)
from emu.kernels.elementwise.scatter_rules import check_channels, check_scatter
from emu.kernels.errors import ArgumentError
from emu.kernels.strided.axes import Axis

_INT8 = np.dtype(np.int8)


def quantize(
    x: object,
    scales: object,
    zero_points: object = None,
    *,
    axis: int = -1,
    multiply: bool = False,
    out: object = None,
) -> DeviceArray:
    """Quantise to int8: ``clip(rint(x / scale + zero_point), -128, 127)``.

    Args:
        x: At most 8 axes, any strides; fp32, fp16 or bf16.
        scales: A number, or an array of one element or one for each index along ``axis``; fp32, fp16
            or bf16.
        zero_points: The same, or int32 or int8. Default: 0.
        axis: The axis of ``x`` that scales and zero points lie along, where they are not single.
            Default: the last.
        multiply: Compute ``x * scale`` in place of ``x / scale``. Default: divide.
        out: Where to put the result: the shape of ``x``, int8, any strides. Default: a new array.

    Returns:
        The result, in device memory.

    Raises:
        ArgumentError: An argument is in host memory or has another dtype or shape, or ``out``
            overlaps another argument.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    source = place(x, "x")
    check_values("x.dtype", source.dtype)
    kind = ("multiply" if check.flag("multiply", multiply) else "divide", VALUE_KINDS[source.dtype])
    factors = ("scales", scales), ("zero_points", zero_points)
    return _convert(kind, ("x", source), _INT8, out, factors, axis)


def dequantize(
    q: object,
    scales: object,
    offsets: object = None,
    *,
    axis: int = -1,
    dtype: npt.DTypeLike = np.float32,
    out: object = None,
) -> DeviceArray:
    """Turn int8 back into values: ``(q + offset) * scale`` in fp32, then rounded to ``dtype``.

    The offset is added: to undo :func:`quantize` with a zero point, give its negative.

    Args:
        q: At most 8 axes, any strides; int8.
        scales: A number, or an array of one element or one for each index along ``axis``; fp32, fp16
            or bf16.
        offsets: The same, or int32 or int8. Default: 0.
        axis: The axis of ``q`` that scales and offsets lie along, where they are not single. Default:
            the last.
        dtype: fp32, fp16 or bf16. Default: fp32.
        out: Where to put the result: the shape of ``q``, the dtype ``dtype``, any strides. Default: a
            new array.

    Returns:
        The result, in device memory.

    Raises:
        ArgumentError: An argument is in host memory or has another dtype or shape, or ``out``
            overlaps another argument.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    source = place(q, "q")
    if source.dtype != _INT8:
        raise ArgumentError(f"q must have dtype int8, but got {source.dtype}")
    wanted = check.dtype("dtype", dtype)
    check_values("dtype", wanted)
    factors = ("scales", scales), ("offsets", offsets)
    return _convert(("restore", VALUE_KINDS[wanted]), ("q", source), wanted, out, factors, axis)


def quant_scatter(
    target: object,
    indices: object,
    updates: object,
    scales: object,
    zero_points: object = None,
    *,
    axis: int = -2,
    quant_axis: int = -1,
    align: int | None = 32,
    overlap: str = "refuse",
) -> object:
    """Quantise ``updates`` and write them into ``target``, each row at its index.

    With ``q = clip(rint(updates / scales + zero_points), -128, 127)``, the arithmetic that of
    :func:`quantize`, row i becomes a segment of ``target`` whose run along ``axis`` begins at the
    index: ``target[i, ..., indices[i] + k, ...] = q[i, ..., k, ...]`` for indices of one axis,
    ``target[indices[i, 0], ..., indices[i, 1] + k, ...] = q[i, ..., k, ...]`` for pairs.

    The indices are copied to the host to be checked, so this waits for the device. An empty
    ``updates`` changes nothing; its indices are not checked.

    Args:
        target: int8, 3 to 8 axes, any strides; changed in place.
        indices: int32 or int64 of shape [n], or [n, 2], where n is the first extent of ``updates``.
        updates: As many axes as ``target``: the first extent at most that of ``target`` where indices
            have one axis, the extent along ``axis`` at most that of ``target``, the others equal. bf16
            or fp16.
        scales: As many elements as the last axis of ``updates``, on one axis; bf16 for bf16 updates,
            fp32 for fp16.
        zero_points: As many elements; bf16 for bf16 updates, int32 for fp16. Default: none.
        axis: The axis along which segments begin at an index; neither the first nor the last.
        quant_axis: The axis of scales and zero points; must be the last.
        align: What the last extent of ``updates`` must be a multiple of; None for no such rule. The
            default is the hardware's: 32 bytes of int8.
        overlap: What to do where two rows write the same element: ``"refuse"``, or ``"last"``: the
            later row wins.

    Returns:
        ``target``.

    Raises:
        ArgumentError: An argument is in host memory or breaks one of these rules, an index does not
            leave room for its segment, or segments overlap and should not. ``target`` is unchanged.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    to, where, what = place(target, "target"), place(indices, "indices"), place(updates, "updates")
    along = check_scatter(to, where, what, axis, quant_axis, align, overlap)
    channels = _Channels(
        [
            (name, None if value is None else place(value, name))
            for name, value in (("scales", scales), ("zero_points", zero_points))
        ]
    )
    for name, array in channels.named():
        check_channels(name, array, what, one_axis=True)
    sources = [("indices", where), ("updates", what), *channels.named()]
    _check_memory("target", to, sources)
    if what.size:
        for start, end in runs_apart(
            where.copy_to_host(), to.shape, what.shape[along], along, overlap
        ):
            _scatter(to, where[start:end], what[start:end], along, channels)
    return target


class _Channels:
    """Scales and zero points, as kernels take them."""

    def __init__(self, factors: list[tuple[str, DeviceArray | None]]) -> None:
        self._factors = factors

    @property
    def single(self) -> bool:
        """Return whether one of each holds for all elements."""
        return all(array is None or array.size == 1 for _, array in self._factors)

    def named(self) -> list[tuple[str, DeviceArray]]:
        """Return the arrays with their names."""
        return [(name, array) for name, array in self._factors if array is not None]

    def records(self) -> list[Channel]:
        """Return both as a kernel takes them."""
        found: list[Channel] = []
        for _, array in self._factors:
            if array is None:
                found.append(Channel(0, 0, CHANNEL_KINDS[None]))
            else:
                step = 0 if array.size == 1 else array.strides[0]
                found.append(Channel(array.address, step, CHANNEL_KINDS[array.dtype]))
        return found

    def windows(self) -> list[tuple[int, int]]:
        """Return the address ranges of the arrays."""
        return [array.window for _, array in self.named()]


def _factor(name: str, value: object, extent: int, axis: int) -> DeviceArray | None:
    """Return scales or zero points that are single or ``extent`` in number."""
    if value is None:
        return None
    if isinstance(value, int | float | np.generic):
        value = check.number(name, value) if isinstance(value, int | float) else value
        with np.errstate(over="ignore"):
            number = np.asarray(value, np.float32 if isinstance(value, int | float) else None)
        array = to_device(number.reshape(1))
    else:
        array = place(value, name)
    check_factor(name, array, extent, axis)
    return array


def _check_memory(name: str, target: DeviceArray, sources: list[tuple[str, DeviceArray]]) -> None:
    for label, array in sources:
        check_aligned(array, label)
        check_apart(target, array, label, name)
    check_written(target, name)


def _convert(
    kind: tuple[str, str],
    named: tuple[str, DeviceArray],
    dtype: np.dtype[np.generic],
    out: object,
    factors: tuple[tuple[str, object], tuple[str, object]],
    axis: int,
) -> DeviceArray:
    name, source = named
    if source.ndim > MAX_RANK:
        raise ArgumentError(f"{name} must have at most {MAX_RANK} axes, but got {source.ndim}")
    axis = check.integer("axis", axis)
    if source.ndim and not -source.ndim <= axis < source.ndim:
        raise ArgumentError(
            f"axis must be in {-source.ndim}..{source.ndim - 1} for shape {source.shape}, "
            f"but got {shown(axis)}"
        )
    along = axis % max(1, source.ndim)
    extent = source.shape[along] if source.ndim else 1
    channels = _Channels([(label, _factor(label, value, extent, axis)) for label, value in factors])
    target = empty(source.shape, dtype) if out is None else place(out, "out")
    if (target.shape, target.dtype) != (source.shape, dtype):
        raise ArgumentError(
            f"out must have shape {source.shape} and dtype {dtype}, but got {target.shape} and "
            f"{target.dtype}"
        )
    _check_memory("out", target, [named, *channels.named()])
    if source.size == 0:
        return target
    channel = [0] * source.ndim  # the channel's number, as strides
    if not channels.single:
        channel[along] = 1
    axes, (t_low, s_low, c_low) = joined_axes(source.shape, target.strides, source.strides, channel)
    inner, outer = (axes[0], axes[1:]) if axes else ((1, target.itemsize, source.itemsize, 0), [])
    windows = (target.window, source.window, *channels.windows())
    for (t_start, s_start, c_start), part in pieces(outer, 3):
        t, s = target.address + t_low + t_start, source.address + s_low + s_start
        by_row = int(any(axis[3] for axis in part))
        rows = math.prod(axis[0] for axis in part)
        wide = _wide(t, s, target.itemsize, source.itemsize, inner, part)
        for start, end in ((0, wide), (wide, inner[0])):
            if start == end:
                continue
            lanes = LANES if end == wide else 1
            count = (end - start) // lanes
            launch(
                CONVERT_KERNELS[(*kind, lanes, len(part) <= FEW)],
                *cover(count, rows),
                t + start * inner[1],
                s + start * inner[2],
                Grid(count, rows, inner[1], inner[2]),
                packed(part, 3),
                ChannelWalk(c_low + c_start + start * inner[3], inner[3], by_row),
                *channels.records(),
                touches=windows,
            )
    return target


def _wide(t: int, s: int, t_item: int, s_item: int, inner: Axis, outer: list[Axis]) -> int:
    """Return the number of elements of a row that can be handled eight at a time."""
    sides = ((t, t_item, 1), (s, s_item, 2))
    for address, item, operand in sides:
        unit = min(16, LANES * item)
        steps = [axis[operand] for axis in outer]
        if inner[operand] != item or any(step % unit for step in (address, *steps)):
            return 0
    return inner[0] // LANES * LANES


def _scatter(
    target: DeviceArray,
    indices: DeviceArray,
    updates: DeviceArray,
    along: int,
    channels: _Channels,
) -> None:
    """Launch updates that do not overlap."""
    n, count = updates.shape[0], updates.shape[-1]
    axes, (t_low, u_low) = joined_axes(
        updates.shape[1:-1], target.strides[1:-1], updates.strides[1:-1]
    )
    inner = (count, target.strides[-1], updates.strides[-1])
    pairs = indices.ndim == 2
    i_steps = indices.strides[0], indices.strides[1] if pairs else 0
    t_steps, u_batch = (target.strides[0], target.strides[along]), updates.strides[0]
    for (t_start, u_start), part in pieces(axes, 2):
        t = target.address + t_low + t_start
        u = updates.address + u_low + u_start
        steps: list[Axis] = [*part, (1, *(t_steps[:1]), u_batch), (1, t_steps[1], 0)]
        wide = _wide(t, u, 1, updates.itemsize, inner, steps) == count
        lanes = LANES if wide else 1
        rows_of_one = math.prod(axis[0] for axis in part)
        at_once = (ROW_LIMIT - 1) // rows_of_one
        for i in range(0, n, at_once):
            rows = min(at_once, n - i) * rows_of_one
            launch(
                SCATTER_KERNELS[VALUE_KINDS[updates.dtype], lanes, len(part) <= FEW],
                *cover(count // lanes, rows),
                t + (0 if pairs else i * t_steps[0]),
                u + i * u_batch,
                Grid(count // lanes, rows, inner[1], inner[2]),
                packed(part, 2),
                Segments(rows_of_one, *t_steps, u_batch),
                Indices(
                    indices.address + i * i_steps[0],
                    *i_steps,
                    int(pairs),
                    int(indices.itemsize == 8),
                ),
                *channels.records(),
                touches=(target.window, updates.window, indices.window, *channels.windows()),
            )


__all__ = ["dequantize", "quant_scatter", "quantize"]
