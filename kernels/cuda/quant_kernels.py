"""The kernels of quantisation: one number a step, or eight where rows are contiguous and aligned.

A thread stays in its column and walks down the rows, so that scales and zero points which run along
the columns are loaded once.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import cuda

from emu.kernels.core.annotations import Bits, Dispatcher, Number, Real
from emu.kernels.core.dtypes import BFLOAT16, BY_NAME
from emu.kernels.cuda.device import device_function, kernel
from emu.kernels.cuda.elements import LOADS, STORES
from emu.kernels.cuda.geometry import (
    Outer,
    few_offsets,
    few_offsets_of_three,
    many_offsets,
    many_offsets_of_three,
)
from emu.kernels.cuda.lanes import bf16_to_f32, f32_to_bf16
from emu.kernels.cuda.primitives import (
    as_f32,
    bits_f32,
    divide,
    f16_to_f32,
    f32_to_f16,
    fadd,
    fdiv,
    fmul,
    int_f32,
    load_8,
    load_16,
    load_32,
    load_64,
    load_128,
    signed_8,
    signed_32,
    signed_64,
    store_8,
    store_64,
    store_128,
)

LANES = 8
"""Numbers that a thread handles at a time where it can."""

VALUE_KINDS = {
    BY_NAME[name].numpy: BY_NAME[name].short for name in ("float16", "bfloat16", "float32")
}
"""Kinds of the dtypes that are quantised and restored."""

Eight: TypeAlias = tuple[Number, ...]  # as many numbers as a thread handles at a time

_NONE, _F16, _BF16, _F32, _I32, _I8 = range(6)
CHANNEL_KINDS: dict[np.dtype[np.generic] | None, int] = {
    None: _NONE,
    np.dtype(np.float16): _F16,
    BFLOAT16: _BF16,
    np.dtype(np.float32): _F32,
    np.dtype(np.int32): _I32,
    np.dtype(np.int8): _I8,
}
"""Dtypes of scales and zero points, as kernels know them."""

_BYTE, _LOW_16, _LOW_32 = np.uint64(0xFF), np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_S8, _S16, _S24, _S32, _S40, _S48, _S56 = (np.uint64(n) for n in range(8, 64, 8))


@device_function
def _channel(address: int, kind: int) -> Real:
    """Load a scale or a zero point as fp32."""
    if kind == _F32:
        return as_f32(load_32(address))
    if kind == _BF16:
        return bf16_to_f32(load_16(address))
    if kind == _F16:
        return f16_to_f32(load_16(address))
    if kind == _I32:
        return int_f32(signed_32(load_32(address)))
    if kind == _I8:
        return int_f32(signed_8(load_8(address)))
    return np.float32(0.0)


class Channel(NamedTuple):
    """Scales or zero points: one, or one for each channel."""

    address: int
    step: int
    """Bytes from one to the next; 0 where one holds for all."""
    kind: int
    """Dtype, by :data:`CHANNEL_KINDS`."""


class Grid(NamedTuple):
    """Rows of what a kernel handles at a time, one number or ``LANES``."""

    columns: int
    rows: int
    target_step: int
    """Bytes from one number of a row to the next, in the target."""
    source_step: int


class ChannelWalk(NamedTuple):
    """Numbers of the channels of a grid."""

    first: int
    step: int
    """From one number of a row to the next."""
    by_row: int
    """1 if rows have channels of their own."""


class Segments(NamedTuple):
    """Segments that a scatter writes, each at its index."""

    rows: int
    """Rows of a segment."""
    target_batch: int
    """Bytes from one index of the target's first axis to the next."""
    target_along: int
    """The same for the axis of the scatter."""
    update_batch: int
    """Bytes from one segment to the next among the updates."""


class Indices(NamedTuple):
    """Indices of a scatter, one or a pair for each segment."""

    address: int
    step: int
    """Bytes from one segment's to the next."""
    pair_step: int
    """Bytes between the two of a pair."""
    pairs: int
    """1 if they are pairs: an index of the first axis before the other."""
    wide: int
    """1 for int64, 0 for int32."""


@device_function
def _channels_8(channel: Channel, first: int, step: int) -> Eight:
    """Load what belongs to eight numbers, whose channels are ``step`` apart."""
    address = channel.address + first * channel.step
    stride, kind = step * channel.step, channel.kind
    a = _channel(address, kind)
    if stride == 0:
        return a, a, a, a, a, a, a, a
    return (
        a,
        _channel(address + stride, kind),
        _channel(address + 2 * stride, kind),
        _channel(address + 3 * stride, kind),
        _channel(address + 4 * stride, kind),
        _channel(address + 5 * stride, kind),
        _channel(address + 6 * stride, kind),
        _channel(address + 7 * stride, kind),
    )


@device_function
def _channels_1(channel: Channel, first: int, step: int) -> Real:
    return _channel(channel.address + first * channel.step, channel.kind)


# Added to a number of at most 2**22, it leaves the nearest integer in the last bits: rounding and
# conversion in one addition, where the device's conversions run at a fraction of that speed.
_MAGIC = np.float32(1.5 * 2**23)
_LOWEST, _HIGHEST = np.float32(-128.0), np.float32(127.0)
_ZERO = np.uint64(0)


@device_function
def _to_int8(value: Real) -> Bits:
    """Round half to even and saturate; the result is a byte in a ``uint64``."""
    clipped = value if value < _HIGHEST else _HIGHEST  # noqa: FURB136 - min() does not compile
    clipped = clipped if clipped > _LOWEST else _LOWEST  # noqa: FURB136 - max() of floats does not compile for CUDA
    bits = np.uint64(bits_f32(fadd(clipped, _MAGIC))) & _BYTE
    return bits if value == value else _ZERO  # noqa: PLR0124 - NaN becomes 0


@device_function
def _by_division(value: Real, scale: Real, zero: Real) -> Bits:
    return _to_int8(fadd(fdiv(value, scale), zero))


@device_function
def _by_multiplication(value: Real, scale: Real, zero: Real) -> Bits:
    return _to_int8(fadd(fmul(value, scale), zero))


@device_function
def _restored(quantised: Bits, scale: Real, zero: Real) -> Real:
    return fmul(fadd(int_f32(signed_8(quantised)), zero), scale)


@device_function
def _halves(pair: tuple[Bits, Bits]) -> Eight:
    low, high = np.uint64(pair[0]), np.uint64(pair[1])
    return (
        low & _LOW_16,
        (low >> _S16) & _LOW_16,
        (low >> _S32) & _LOW_16,
        low >> _S48,
        high & _LOW_16,
        (high >> _S16) & _LOW_16,
        (high >> _S32) & _LOW_16,
        high >> _S48,
    )


def _load_8_of(widen: Dispatcher) -> Dispatcher:
    @device_function
    def load(address: int) -> Eight:
        a, b, c, d, e, f, g, h = _halves(load_128(address))
        return widen(a), widen(b), widen(c), widen(d), widen(e), widen(f), widen(g), widen(h)

    return load


@device_function
def _load_8_f32(address: int) -> Eight:
    low, high = load_128(address), load_128(address + 16)
    a, b, c, d = np.uint64(low[0]), np.uint64(low[1]), np.uint64(high[0]), np.uint64(high[1])
    return (
        as_f32(a & _LOW_32),
        as_f32(a >> _S32),
        as_f32(b & _LOW_32),
        as_f32(b >> _S32),
        as_f32(c & _LOW_32),
        as_f32(c >> _S32),
        as_f32(d & _LOW_32),
        as_f32(d >> _S32),
    )


@device_function
def _bits(value: Real) -> Bits:
    return np.uint64(bits_f32(value))


@device_function
def _f16_bits(value: Real) -> Bits:
    return np.uint64(f32_to_f16(value))


def _store_8_of(narrow: Dispatcher) -> Dispatcher:
    @device_function
    def store(address: int, v: Eight) -> None:
        low = narrow(v[0]) | (narrow(v[1]) << _S16) | (narrow(v[2]) << _S32)
        high = narrow(v[4]) | (narrow(v[5]) << _S16) | (narrow(v[6]) << _S32)
        store_128(address, low | (narrow(v[3]) << _S48), high | (narrow(v[7]) << _S48))

    return store


@device_function
def _store_8_f32(address: int, v: Eight) -> None:
    store_128(address, _bits(v[0]) | (_bits(v[1]) << _S32), _bits(v[2]) | (_bits(v[3]) << _S32))
    store_128(
        address + 16, _bits(v[4]) | (_bits(v[5]) << _S32), _bits(v[6]) | (_bits(v[7]) << _S32)
    )


def _on_8(operation: Dispatcher) -> Dispatcher:
    @device_function
    def each(v: Eight, s: Eight, z: Eight) -> Eight:
        return (
            operation(v[0], s[0], z[0]),
            operation(v[1], s[1], z[1]),
            operation(v[2], s[2], z[2]),
            operation(v[3], s[3], z[3]),
            operation(v[4], s[4], z[4]),
            operation(v[5], s[5], z[5]),
            operation(v[6], s[6], z[6]),
            operation(v[7], s[7], z[7]),
        )

    return each


@device_function
def _store_8_bytes(address: int, v: Eight) -> None:
    low = v[0] | (v[1] << _S8) | (v[2] << _S16) | (v[3] << _S24)
    high = (v[4] << _S32) | (v[5] << _S40) | (v[6] << _S48) | (v[7] << _S56)
    store_64(address, low | high)


@device_function
def _load_8_bytes(address: int) -> Eight:
    bits = np.uint64(load_64(address))
    return (
        bits & _BYTE,
        (bits >> _S8) & _BYTE,
        (bits >> _S16) & _BYTE,
        (bits >> _S24) & _BYTE,
        (bits >> _S32) & _BYTE,
        (bits >> _S40) & _BYTE,
        (bits >> _S48) & _BYTE,
        bits >> _S56,
    )


_LOADS_8 = {"f16": _load_8_of(f16_to_f32), "bf16": _load_8_of(bf16_to_f32), "f32": _load_8_f32}
_STORES_8 = {"f16": _store_8_of(_f16_bits), "bf16": _store_8_of(f32_to_bf16), "f32": _store_8_f32}
_OPERATIONS = {"divide": _by_division, "multiply": _by_multiplication, "restore": _restored}


def _steps(
    operation: str, value: str, lanes: int
) -> tuple[Dispatcher, Dispatcher, Dispatcher, Dispatcher]:
    """Return how to load, to combine with scales and zero points, to store, to load the latter."""
    combine = _OPERATIONS[operation]
    if lanes == 1:
        channels, load_byte, store_byte, loads, stores = _channels_1, load_8, store_8, LOADS, STORES
    else:
        combine, channels = _on_8(combine), _channels_8
        load_byte, store_byte, loads, stores = _load_8_bytes, _store_8_bytes, _LOADS_8, _STORES_8
    if operation == "restore":
        return load_byte, combine, stores[value], channels
    return loads[value], combine, store_byte, channels


def _convert_kernel(operation: str, value: str, lanes: int, few: bool) -> Dispatcher:
    load, combine, store, channels = _steps(operation, value, lanes)
    offsets = few_offsets_of_three if few else many_offsets_of_three

    def convert(
        target: int,
        source: int,
        grid: Grid,
        outer: Outer,
        walk: ChannelWalk,
        scale: Channel,
        zero: Channel,
    ) -> None:
        # A launch passes plain tuples.
        grid, walk, scale, zero = Grid(*grid), ChannelWalk(*walk), Channel(*scale), Channel(*zero)
        column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        while column < grid.columns:
            i = column * lanes
            c = walk.first + i * walk.step
            scales = channels(scale, c, walk.step)
            zeros = channels(zero, c, walk.step)
            row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
            while row < grid.rows:
                t, s, c_row = offsets(row, outer)
                if walk.by_row:
                    scales = channels(scale, c + c_row, 0)
                    zeros = channels(zero, c + c_row, 0)
                values = load(source + s + i * grid.source_step)
                store(target + t + i * grid.target_step, combine(values, scales, zeros))
                row += cuda.blockDim.y * cuda.gridDim.y
            column += cuda.blockDim.x * cuda.gridDim.x

    return kernel(convert)


@device_function
def _index(address: int, wide: int) -> Number:
    return signed_64(load_64(address)) if wide else signed_32(load_32(address))


def _scatter_kernel(value: str, lanes: int, few: bool) -> Dispatcher:
    load, combine, store, channels = _steps("divide", value, lanes)
    offsets = few_offsets if few else many_offsets

    def scatter(
        target: int,
        updates: int,
        grid: Grid,
        outer: Outer,
        segments: Segments,
        indices: Indices,
        scale: Channel,
        zero: Channel,
    ) -> None:
        # A launch passes plain tuples.
        grid, segments, indices = Grid(*grid), Segments(*segments), Indices(*indices)
        scale, zero = Channel(*scale), Channel(*zero)
        column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        while column < grid.columns:
            c = column * lanes
            scales = channels(scale, c, 1)
            zeros = channels(zero, c, 1)
            row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
            while row < grid.rows:
                i = divide(row, segments.rows)
                t, u = offsets(row - i * segments.rows, outer)
                at = indices.address + i * indices.step
                batch = i
                if indices.pairs:
                    batch = _index(at, indices.wide)
                    at += indices.pair_step
                t += target + batch * segments.target_batch
                t += _index(at, indices.wide) * segments.target_along
                values = load(updates + u + i * segments.update_batch + c * grid.source_step)
                store(t + c * grid.target_step, combine(values, scales, zeros))
                row += cuda.blockDim.y * cuda.gridDim.y
            column += cuda.blockDim.x * cuda.gridDim.x

    return kernel(scatter)


CONVERT_KERNELS: dict[tuple[str, str, int, bool], Dispatcher] = {
    (operation, value, lanes, few): _convert_kernel(operation, value, lanes, few)
    for operation in _OPERATIONS
    for value in VALUE_KINDS.values()
    for lanes in (1, LANES)
    for few in (True, False)
}
"""By operation, what is not int8, numbers a step, and whether few outer axes are walked."""

SCATTER_KERNELS: dict[tuple[str, int, bool], Dispatcher] = {
    (value, lanes, few): _scatter_kernel(value, lanes, few)
    for value in ("f16", "bf16")
    for lanes in (1, LANES)
    for few in (True, False)
}
"""By what is quantised, numbers a step, and whether few outer axes are walked."""
