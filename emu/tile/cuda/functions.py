"""The functions that generated kernels call, by name: ``add_i32``, ``load_bf16``, ``round_f16`` ...

An element has a register of its own dtype, except that floats narrower than 32 bits are kept as
fp32 numbers that their dtype can represent, and pointers as ``int64`` addresses. The functions of a name
mean one thing in two forms: :mod:`emu.tile.cuda.compiled` for a device, :mod:`emu.tile.cuda.simulated`
for Numba's CUDA simulator. Each is made when it is first asked for.

============================  ==========================================================================
``{op}_{dtype}``              arithmetic of integers and ``i1`` that wraps, of ``f32`` and ``f64``
``cast_{from}_{to}``          between register dtypes; floats to integers saturate, NaN gives 0
``castrz_f64_f32``            toward zero; ``castodd_{from}_{to}``: so that one more rounding is exact
``round_{dtype}``             fp32 to the nearest number of a narrower dtype; ``truncate_``: toward zero
``bits_{dtype}``              pattern of a float as an unsigned integer; ``from_{dtype}`` undoes it
``load_/store_{dtype}``       an element in global memory at an address
``atomic_{kind}_{dtype}``     an element in global memory; gives what was there before
``address``                   ``(pointer, offset, size)``: the pointer moved by elements
============================  ==========================================================================
"""

from __future__ import annotations

import importlib


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    from emu.kernels.cuda.device import SIMULATED  # numba is imported here, not before

    kind = "simulated" if SIMULATED else "compiled"
    function = importlib.import_module(f"emu.tile.cuda.{kind}").make(name)
    globals()[name] = function
    return function
