"""Building blocks of kernels: loads, stores, conversions, exact arithmetic, atomic updates.

Each name is compiled for the device from :mod:`emu.kernels.cuda.intrinsics`, or is the Python
function of the same name and meaning in :mod:`emu.kernels.cuda.simulated`. Addresses are ``int64``;
loads and stores reach global memory and must be aligned to their width.
"""

from __future__ import annotations

import importlib
from typing import Any

from emu.kernels.cuda.device import SIMULATED

_kind = "simulated" if SIMULATED else "intrinsics"
_from: Any = importlib.import_module(f"emu.kernels.cuda.{_kind}")

add_f64_at = _from.add_f64_at
add_u32_at = _from.add_u32_at
add_u64_at = _from.add_u64_at
address_of_half = _from.address_of_half
any_cas_u32 = _from.any_cas_u32
any_load_u32 = _from.any_load_u32
as_f32 = _from.as_f32
as_f64 = _from.as_f64
bits_f32 = _from.bits_f32
bits_f64 = _from.bits_f64
cas_u32 = _from.cas_u32
divide = _from.divide
f16_to_f32 = _from.f16_to_f32
f32_to_f16 = _from.f32_to_f16
fadd = _from.fadd
fadd64 = _from.fadd64
fdiv = _from.fdiv
fma32 = _from.fma32
fma64 = _from.fma64
fmul = _from.fmul
fmul64 = _from.fmul64
imul_add = _from.imul_add
int_f32 = _from.int_f32
load_8 = _from.load_8
load_16 = _from.load_16
load_32 = _from.load_32
load_64 = _from.load_64
load_128 = _from.load_128
signed_8 = _from.signed_8
signed_32 = _from.signed_32
signed_64 = _from.signed_64
store_8 = _from.store_8
store_16 = _from.store_16
store_32 = _from.store_32
store_64 = _from.store_64
store_128 = _from.store_128
unsigned = _from.unsigned
