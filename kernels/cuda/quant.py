"""Quantise to int8 in device memory, plainly or scattered into a cache, and back.

All arithmetic is in fp32, each operation rounded by itself: a correctly rounded division (or a
multiplication), then an addition, then rounding to an integer, half to even. Nothing is fused. NaN
becomes 0; what is too large, infinities too, becomes -128 or 127.
Everything runs on the default stream, after what was put there before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from emu.kernels.cuda.arrays import DeviceArray, empty, place
from emu.kernels.cuda.checks import check_aligned, check_apart, check_written
from emu.kernels.cuda.device import cover, launch
from emu.kernels.cuda.geometry import FEW, ROW_LIMIT, Axis, joined_axes, packed, pieces
from emu.kernels.cuda.quant_kernels import (
    CHANNEL_KINDS,
    CONVERT_KERNELS,
    LANES,
    SCATTER_KERNELS,
    VALUE_KINDS,
)
from emu.kernels.cuda.scatter_checks import check_channels, check_scatter, check_values, runs_apart
from emu.kernels.errors import ArgumentError

_INT8 = np.dtype(np.int8)


def quantize(
    x: Any,
    scales: Any,
    zero_points: Any = None,
    *,
    axis: int = -1,
    multiply: bool = False,
    out: Any = None,
) -> DeviceArray:
    """Quantise: ``clip(rint(x / s + z), -128, 127)``, or ``x * s`` where ``multiply``.

    Args:
        x: Values; float16, bfloat16 or float32, rank 1 to 8, any strides.
        scales: One number, or one for each index of ``axis``; float16, bfloat16 or float32.
        zero_points: As many, of those dtypes or int32; None adds nothing.
        axis: The axis along which scales and zero points run.
        multiply: Multiply by the scale instead of dividing.
        out: Where the result goes: int8, of the shape of ``x``, any strides, sharing no memory with
            other arguments. None makes a new array.

    Returns:
        The result, in device memory.

    Raises:
        ArgumentError: An argument is not so. Nothing was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    source = place(x, "x")
    check_values(source.dtype, "x")
    target = empty(source.shape, _INT8) if out is None else place(out, "out")
    if target.dtype != _INT8:
        raise ArgumentError(f"out must have dtype int8, but got {target.dtype}")
    kind = ("multiply" if multiply else "divide", VALUE_KINDS[source.dtype])
    return _convert(kind, source, target, "x", scales, zero_points, axis)


def dequantize(
    q: Any,
    scales: Any,
    zero_points: Any = None,
    *,
    axis: int = -1,
    dtype: Any = np.float32,
    out: Any = None,
) -> DeviceArray:
    """Turn int8 back into values: ``(q + z) * s``, rounded to ``dtype``.

    Args:
        q: Quantised values; int8, rank 1 to 8, any strides.
        scales: One number, or one for each index of ``axis``; float16, bfloat16 or float32.
        zero_points: As many, of those dtypes or int32; None adds nothing.
        axis: The axis along which scales and zero points run.
        dtype: Of the result: float32, float16 or bfloat16. With ``out``, its dtype counts.
        out: Where the result goes, of the shape of ``q``, any strides, sharing no memory with other
            arguments. None makes a new array.

    Returns:
        The result, in device memory.

    Raises:
        ArgumentError: An argument is not so. Nothing was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    source = place(q, "q")
    if source.dtype != _INT8:
        raise ArgumentError(f"q must have dtype int8, but got {source.dtype}")
    if out is None:
        check_values(np.dtype(dtype), "dtype")
    target = empty(source.shape, dtype) if out is None else place(out, "out")
    check_values(target.dtype, "out")
    kind = ("restore", VALUE_KINDS[target.dtype])
    return _convert(kind, source, target, "q", scales, zero_points, axis)


def quant_scatter(
    target: Any,
    indices: Any,
    updates: Any,
    scales: Any,
    zero_points: Any = None,
    *,
    axis: int = -2,
    quant_axis: int = -1,
    align: int = 32,
    overlap: str = "refuse",
) -> None:
    """Quantise ``updates`` and write them into ``target``, each at the place its index says.

    With 1-D indices, update ``i`` goes to ``target[i, ..., indices[i] + k, ...]``, k along
    ``axis``; with indices of shape (n, 2) to ``target[indices[i, 0], ..., indices[i, 1] + k, ...]``.
    The indices are copied to the host to be checked, so this waits for the device.

    Args:
        target: int8 array of rank 3 to 8, any strides, changed in place.
        indices: int32 or int64, of shape (n,) or (n, 2).
        updates: float16, bfloat16 or float32, of the rank of ``target``; n along the first axis, at
            most the target's extent along ``axis``, the target's extents along the others.
        scales: One for each index of the last axis; float16, bfloat16 or float32.
        zero_points: As many, of those dtypes or int32; None adds nothing.
        axis: The axis that the indices address: neither the first nor the last.
        quant_axis: The axis along which scales and zero points run: the last.
        align: The bytes of a row of the target's last axis must be a multiple of this.
        overlap: What to do where two updates reach the same element: ``"refuse"``, or ``"last"``:
            the later one wins.

    Raises:
        ArgumentError: An argument is not so, an index reaches outside, or updates overlap. Nothing
            was changed.
        CudaUnavailableError: There is neither a CUDA device nor the simulator.
    """
    to, what = place(target, "target"), place(updates, "updates")
    where = place(indices, "indices")
    check_values(what.dtype, "updates")
    along = check_scatter(to, where, what, axis, quant_axis, align, overlap)
    channels = _Channels(scales, zero_points, what.shape[-1], single=False)
    for array, name in ((where, "indices"), (what, "updates"), *channels.named()):
        check_aligned(array, name)
        check_apart(to, array, name)
    check_written(to, "target")
    runs = runs_apart(where.copy_to_host(), to.shape, what.shape[along], along, overlap)
    if what.size:
        for start, end in runs:
            _scatter(to, where[start:end], what[start:end], start, along, channels)


class _Channels:
    """Scales and zero points, as kernels take them."""

    def __init__(self, scales: Any, zero_points: Any, count: int, *, single: bool) -> None:
        self.scales = place(scales, "scales")
        check_channels(self.scales, "scales", count, single=single)
        self.zeros = None
        if zero_points is not None:
            self.zeros = place(zero_points, "zero_points")
            check_channels(self.zeros, "zero_points", self.scales.size, single=single)
        self.single = self.scales.size == 1

    def named(self) -> list[tuple[DeviceArray, str]]:
        """The arrays with their names."""
        found = [(self.scales, "scales")]
        return found if self.zeros is None else [*found, (self.zeros, "zero_points")]

    def arguments(self) -> tuple[int, ...]:
        """Address, stride and kind of both."""
        none = (0, 0, CHANNEL_KINDS[None])
        return (*_channel(self.scales), *(none if self.zeros is None else _channel(self.zeros)))

    def windows(self) -> list[tuple[int, int]]:
        """The memory of both."""
        return [array.window for array, _ in self.named()]


def _channel(array: DeviceArray) -> tuple[int, int, int]:
    step = array.strides[0] if array.ndim else 0
    return array.address, step, CHANNEL_KINDS[array.dtype]


def _convert(
    kind: tuple[str, str],
    source: DeviceArray,
    target: DeviceArray,
    name: str,
    scales: Any,
    zero_points: Any,
    axis: int,
) -> DeviceArray:
    if not 1 <= source.ndim <= 8:
        raise ArgumentError(f"{name} must have rank 1 to 8, but got rank {source.ndim}")
    if target.shape != source.shape:
        raise ArgumentError(
            f"out must have the shape of {name}, {source.shape}, but got {target.shape}"
        )
    if not -source.ndim <= axis < source.ndim:
        raise ArgumentError(
            f"axis must be in [{-source.ndim}, {source.ndim - 1}] for {name} of rank {source.ndim},"
            f" but got {axis}"
        )
    along = axis % source.ndim
    channels = _Channels(scales, zero_points, source.shape[along], single=True)
    for array, label in ((source, name), *channels.named()):
        check_aligned(array, label)
        check_apart(target, array, label)
    check_written(target, "out")
    if source.size == 0:
        return target
    channel = [0] * source.ndim  # the channel's number, as strides
    channel[along] = 0 if channels.single else 1
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
                *(t + start * inner[1], s + start * inner[2], count, *inner[1:], rows),
                packed(part, 3),
                *(c_low + c_start + start * inner[3], by_row, *channels.arguments()),
                touches=windows,
            )
    return target


def _wide(t: int, s: int, t_item: int, s_item: int, inner: Axis, outer: list[Axis]) -> int:
    """Return how many elements of a row can be handled eight at a time."""
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
    start: int,
    along: int,
    channels: _Channels,
) -> None:
    """Launch updates that do not overlap; ``start`` is the number of the first."""
    n, count = updates.shape[0], updates.shape[-1]
    axes, (t_low, u_low) = joined_axes(
        updates.shape[1:-1], target.strides[1:-1], updates.strides[1:-1]
    )
    inner = (count, target.strides[-1], updates.strides[-1])
    pairs = indices.ndim == 2
    i_steps = indices.strides[0], indices.strides[1] if pairs else 0
    first = 0 if pairs else start
    t_steps, u_batch = (target.strides[0], target.strides[along]), updates.strides[0]
    for (t_start, u_start), part in pieces(axes, 2):
        t = target.address + t_low + t_start + first * t_steps[0]
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
                *(t + (0 if pairs else i * t_steps[0]), u + i * u_batch, count // lanes),
                *(*inner[1:], rows, packed(part, 2), rows_of_one, *t_steps, u_batch),
                *(indices.address + i * i_steps[0], *i_steps, int(pairs)),
                *(int(indices.itemsize == 8), *channels.arguments()),
                touches=(target.window, updates.window, indices.window, *channels.windows()),
            )
