"""Correctly rounded division of many fp32 values by one divisor, without dividing.

A vector division takes 5 cycles for 8 elements on Zen 4 (10 for 16) and 10 on Haswell, which is more than all
else that quantisation does. With the divisor's reciprocal in two parts, ``high + low``, this takes four
multiply-adds, 2 cycles:

* ``q = fma(x, high, x * low)`` is within 0.51 units in the last place of ``x / divisor``, so it is one of its two
  neighbours;
  Where the divisor is such that ``high`` errs by at most 2**-25 of it (three in four are), ``x * high`` is, too, and
  ``low`` is 0;
* ``r = fma(-q, divisor, x)`` is then exact, and
* ``fma(r, high, q)`` is the correctly rounded quotient, as ``high`` is the correctly rounded reciprocal: Markstein,
  "Computation of elementary functions on the IBM RISC System/6000 processor".

All of it needs that nothing overflows or becomes subnormal on the way, which :func:`is_moderate` and the bound on x
see to. A quotient below 2**-60, of an x so small that ``r`` isn't exact, has an error in its last places only: it
makes no difference to its sum with a zero point, rounded to an integer.
"""

from __future__ import annotations

import numpy as np
from numba import types

from emu.kernels.core.annotations import IrBuilder, IrValue, Real
from emu.kernels.core.jit import fixed_intrinsic, jit
from emu.kernels.gemm.microkernel import LAYOUT

_SMALLEST, _LARGEST = np.float32(2.0**-40), np.float32(2.0**40)
_BOUND = np.float32(2.0**24)
_HALF_UNIT = np.float32(2.0**-25)
_MOST_ZERO = np.float32(2.0**20)

FUSED = LAYOUT.fused
"""Whether the CPU multiplies and adds with one rounding; where it does not, division is faster."""


@fixed_intrinsic(types.float32, types.float32, types.float32, types.float32)
def fma(builder: IrBuilder, a: IrValue, b: IrValue, c: IrValue) -> IrValue:
    """Return ``a * b + c``, rounded once."""
    return builder.fma(a, b, c)


@jit(inline="always")
def is_moderate(divisor: Real, zero: Real) -> bool:
    """Return whether quotients by ``divisor``, with ``zero`` added, may be computed as here; False for NaN."""
    size = abs(divisor)
    return bool(FUSED and size >= _SMALLEST and size <= _LARGEST and abs(zero) <= _MOST_ZERO)


@jit(inline="always")
def reciprocal(divisor: Real) -> tuple[Real, Real]:
    """Return the two parts of the reciprocal of a moderate divisor; 0 for the lower one where it isn't needed."""
    whole = np.float64(1.0) / np.float64(divisor)
    high = np.float32(whole)
    low = np.float32(whole - np.float64(high))
    # Half a unit of rounding, and half a unit of the reciprocal's error: within one unit, as Markstein needs it.
    return high, low if abs(low) > abs(high) * _HALF_UNIT else np.float32(0.0)


@jit(inline="always")
def largest_dividend(divisor: Real) -> Real:
    """Return the magnitude of x from which ``x / divisor`` plus any moderate zero point is beyond int8."""
    return abs(divisor) * _BOUND


@jit(inline="always")
def quotient(x: Real, divisor: Real, high: Real, low: Real) -> Real:
    """Return ``x / divisor``, rounded once, where ``abs(x) <= largest_dividend(divisor)``."""
    q = fma(x, high, x * low)
    return fma(fma(-q, divisor, x), high, q)
