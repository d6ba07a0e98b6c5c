"""Loads and stores of one element in device memory: narrow floats as fp32, integers as int32."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.annotations import Number
from emu.kernels.cuda.device import device_function
from emu.kernels.cuda.lanes import bf16_to_f32, f32_to_bf16
from emu.kernels.cuda.primitives import (
    as_f32,
    as_f64,
    bits_f32,
    bits_f64,
    f16_to_f32,
    f32_to_f16,
    load_8,
    load_16,
    load_32,
    load_64,
    signed_8,
    signed_32,
    store_16,
    store_32,
    store_64,
)


@device_function
def _load_f32(address: int) -> Number:
    return as_f32(load_32(address))


@device_function
def _load_f64(address: int) -> Number:
    return as_f64(load_64(address))


@device_function
def _load_f16(address: int) -> Number:
    return f16_to_f32(load_16(address))


@device_function
def _load_bf16(address: int) -> Number:
    return bf16_to_f32(load_16(address))


@device_function
def _load_i8(address: int) -> Number:
    return np.int32(signed_8(load_8(address)))


@device_function
def _load_i32(address: int) -> Number:
    return np.int32(signed_32(load_32(address)))


@device_function
def _store_f32(address: int, value: Number) -> None:
    store_32(address, bits_f32(value))


@device_function
def _store_f64(address: int, value: Number) -> None:
    store_64(address, bits_f64(value))


@device_function
def _store_f16(address: int, value: Number) -> None:
    store_16(address, f32_to_f16(value))


@device_function
def _store_bf16(address: int, value: Number) -> None:
    store_16(address, f32_to_bf16(value))


@device_function
def _store_i32(address: int, value: Number) -> None:
    # Without the mask the simulator would see the sign in all 64 bits of the pattern.
    store_32(address, np.uint64(np.int64(value) & 0xFFFFFFFF))


LOADS = {
    "f32": _load_f32,
    "f64": _load_f64,
    "f16": _load_f16,
    "bf16": _load_bf16,
    "i8": _load_i8,
    "i32": _load_i32,
}
"""Loads of an element at an address, by the short name of its dtype."""

STORES = {
    "f32": _store_f32,
    "f64": _store_f64,
    "f16": _store_f16,
    "bf16": _store_bf16,
    "i32": _store_i32,
}
"""Stores of a number at an address; a narrow float is rounded once."""
