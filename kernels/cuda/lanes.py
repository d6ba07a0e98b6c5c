"""Sums of what a machine word holds: one number, or several side by side, as bit patterns."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.annotations import Bits, Dispatcher, Real
from emu.kernels.cuda.device import device_function
from emu.kernels.cuda.primitives import (
    as_f32,
    as_f64,
    bits_f32,
    bits_f64,
    f16_to_f32,
    f32_to_f16,
    fadd,
    fadd64,
)

_LOW_16, _LOW_32 = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_S16, _S32, _S48 = np.uint64(16), np.uint64(32), np.uint64(48)
_ONE, _HALF_ULP = np.uint64(1), np.uint64(0x7FFF)
_MAGNITUDE, _INFINITY, _QUIET_NAN = (
    np.uint64(0x7FFFFFFF),
    np.uint64(0x7F800000),
    np.uint64(0x7FC0),
)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@device_function
def bf16_to_f32(bits: Bits) -> Real:
    """Widen a bf16 pattern (``uint64``); exact."""
    return as_f32((np.uint64(bits) & _LOW_16) << _S16)


@device_function
def f32_to_bf16(value: Real) -> Bits:
    """Round an fp32 number to a bf16 pattern, to nearest, ties to even; NaN gives a quiet NaN."""
    bits = np.uint64(bits_f32(value))
    # Just under half of the last place, and one more where that place is odd: a tie goes to even.
    rounded = (bits + _HALF_ULP + ((bits >> _S16) & _ONE)) >> _S16
    return _QUIET_NAN if (bits & _MAGNITUDE) > _INFINITY else rounded


@device_function
def add_int(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Add integers side by side; ``mask`` has every bit but the highest of each."""
    a, b, low = np.uint64(a), np.uint64(b), np.uint64(mask)
    # The highest bit of each is added without its carry, which would reach the neighbour.
    return ((a & low) + (b & low)) ^ ((a ^ b) & (low ^ _ALL))


@device_function
def add_bool(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Or booleans."""
    return np.uint64(a) | np.uint64(b)


@device_function
def add_f16(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Add two fp16 numbers in fp32 and round once."""
    return np.uint64(f32_to_f16(fadd(f16_to_f32(a), f16_to_f32(b))))


@device_function
def add_bf16(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Add two bf16 numbers in fp32 and round once."""
    return f32_to_bf16(fadd(bf16_to_f32(a), bf16_to_f32(b)))


@device_function
def add_f32(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Add two fp32 numbers."""
    return np.uint64(bits_f32(fadd(as_f32(a), as_f32(b))))


@device_function
def add_f64(a: Bits, b: Bits, mask: Bits) -> Bits:
    """Add two fp64 numbers."""
    return np.uint64(bits_f64(fadd64(as_f64(a), as_f64(b))))


def _twice(add: Dispatcher) -> Dispatcher:
    @device_function
    def both(a: Bits, b: Bits, mask: Bits) -> Bits:
        a, b = np.uint64(a), np.uint64(b)
        low = add(a & _LOW_32, b & _LOW_32, mask)
        return low | (add(a >> _S32, b >> _S32, mask) << _S32)

    return both


def _four_times(add: Dispatcher) -> Dispatcher:
    @device_function
    def each(a: Bits, b: Bits, mask: Bits) -> Bits:
        a, b = np.uint64(a), np.uint64(b)
        result = add(a & _LOW_16, b & _LOW_16, mask)
        result |= add((a >> _S16) & _LOW_16, (b >> _S16) & _LOW_16, mask) << _S16
        result |= add((a >> _S32) & _LOW_16, (b >> _S32) & _LOW_16, mask) << _S32
        return result | (add(a >> _S48, b >> _S48, mask) << _S48)

    return each


ONE: dict[str, Dispatcher] = {
    "int": add_int,
    "bool": add_bool,
    "f16": add_f16,
    "bf16": add_bf16,
    "f32": add_f32,
    "f64": add_f64,
}
"""The sum of one number."""

EIGHT_BYTES: dict[str, Dispatcher] = {
    "int": add_int,
    "bool": add_bool,
    "f16": _four_times(add_f16),
    "bf16": _four_times(add_bf16),
    "f32": _twice(add_f32),
    "f64": add_f64,
}
"""The sums of all the numbers in 8 bytes."""


def int_mask(itemsize: int) -> int:
    """Return ``add_int``'s mask for integers of that many bytes, side by side in 8."""
    return int.from_bytes((b"\xff" * (itemsize - 1) + b"\x7f") * (8 // itemsize), "little")
