"""What kernels are made of: loads, stores, conversions, exact arithmetic, atomic updates.

Each name is compiled for the device from :mod:`emu.kernels.cuda.intrinsics`, or is the Python
function of the same name and meaning in :mod:`emu.kernels.cuda.simulated`. Addresses are ``int64``;
loads and stores reach global memory and must be aligned to their width.
"""

from __future__ import annotations

from emu.kernels.cuda.device import SIMULATED

if SIMULATED:
    from emu.kernels.cuda.simulated import (
        add_f64_at,
        add_u32_at,
        add_u64_at,
        address_of_half,
        any_cas_u32,
        any_load_u32,
        as_f32,
        as_f64,
        bits_f32,
        bits_f64,
        cas_u32,
        divide,
        f16_to_f32,
        f32_to_f16,
        fadd,
        fadd64,
        fdiv,
        fma32,
        fma64,
        fmul,
        imul_add,
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
        store_16,
        store_32,
        store_64,
        store_128,
    )
else:
    from emu.kernels.cuda.intrinsics import (
        add_f64_at,
        add_u32_at,
        add_u64_at,
        address_of_half,
        any_cas_u32,
        any_load_u32,
        as_f32,
        as_f64,
        bits_f32,
        bits_f64,
        cas_u32,
        divide,
        f16_to_f32,
        f32_to_f16,
        fadd,
        fadd64,
        fdiv,
        fma32,
        fma64,
        fmul,
        imul_add,
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
        store_16,
        store_32,
        store_64,
        store_128,
    )
