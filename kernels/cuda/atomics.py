"""Atomic updates for your own ``@cuda.jit`` kernels, of 16-bit floating point too.

Each function takes an array and an index (an integer, or a tuple of them) and returns what the
element was before. Updates are relaxed and hold among the threads of one device, as in
``numba.cuda.atomic``; :func:`add_f16` and :func:`add_bf16` hold among devices too. :func:`load`
acquires, :func:`store` releases, and :func:`fence` orders everything before it against everything
after it.

Arrays of int32, uint32, int64, uint64, float32 and float64 are updated by the device's own
instructions (bitwise operations and exchanges: integers only). It has none for fp16 and bf16 that
every device supports: those live in ``uint16`` arrays of bit patterns, and a compare and swap of
the 32-bit word around the element does the sum, in fp32 with one rounding.

``minimum`` and ``maximum`` of floats treat NaN as ``numba.cuda.atomic`` does; on the CPU NaN wins.

In the simulator the same names are plain functions that refuse the same dtypes.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from emu.kernels.core.annotations import Dispatcher, Index, KernelArray, Number
from emu.kernels.cuda.device import SIMULATED, device_function
from emu.kernels.cuda.lanes import bf16_to_f32, f32_to_bf16
from emu.kernels.cuda.primitives import (
    address_of_half,
    any_cas_u32,
    any_load_u32,
    f16_to_f32,
    f32_to_f16,
    fadd,
)

if SIMULATED:
    from emu.kernels.cuda.simulated import (
        add,
        and_,
        compare_exchange,
        exchange,
        fence,
        load,
        maximum,
        minimum,
        or_,
        store,
        sub,
        xor,
    )
else:
    from emu.kernels.cuda.intrinsics import load_acquire, store_release

    @device_function
    def load(array: KernelArray, index: Index) -> Number:
        """Return an element; what its writer had stored before is seen from then on."""
        return load_acquire(array, index)

    @device_function
    def store(array: KernelArray, index: Index, value: Number) -> None:
        """Store an element; a thread that loads it sees all earlier stores."""
        store_release(array, index, value)

    @device_function
    def add(array: KernelArray, index: Index, value: Number) -> Number:
        """Add to an element."""
        return cuda.atomic.add(array, index, value)

    @device_function
    def sub(array: KernelArray, index: Index, value: Number) -> Number:
        """Subtract from an element."""
        return cuda.atomic.sub(array, index, value)

    @device_function
    def minimum(array: KernelArray, index: Index, value: Number) -> Number:
        """Replace an element by a smaller value."""
        return cuda.atomic.min(array, index, value)

    @device_function
    def maximum(array: KernelArray, index: Index, value: Number) -> Number:
        """Replace an element by a larger value."""
        return cuda.atomic.max(array, index, value)

    @device_function
    def and_(array: KernelArray, index: Index, value: Number) -> Number:
        """And the bits of an element."""
        return cuda.atomic.and_(array, index, value)

    @device_function
    def or_(array: KernelArray, index: Index, value: Number) -> Number:
        """Or the bits of an element."""
        return cuda.atomic.or_(array, index, value)

    @device_function
    def xor(array: KernelArray, index: Index, value: Number) -> Number:
        """Exclusive-or the bits of an element."""
        return cuda.atomic.xor(array, index, value)

    @device_function
    def exchange(array: KernelArray, index: Index, value: Number) -> Number:
        """Replace an element."""
        return cuda.atomic.exch(array, index, value)

    @device_function
    def compare_exchange(
        array: KernelArray, index: Index, expected: Number, value: Number
    ) -> Number:
        """Replace an element that is as expected."""
        return cuda.atomic.cas(array, index, expected, value)

    @device_function
    def fence() -> None:
        """Order every load and store before it against every one after it, on all devices."""
        cuda.threadfence_system()


_LOW_16 = np.uint64(0xFFFF)


def _add_half(widen: Dispatcher, narrow: Dispatcher) -> Dispatcher:
    @device_function
    def add_half(array: KernelArray, index: Index, value: Number) -> Number:
        address = address_of_half(array, index)
        # The narrowest compare and swap has 32 bits: the neighbour is written back as it was seen.
        word = address & ~3
        shift = np.uint64(8 * (address & 2))
        mask = _LOW_16 << shift
        # A plain load may see an old word; then the swap fails and says what is there.
        old = np.uint64(any_load_u32(word))
        while True:
            before = widen((old >> shift) & _LOW_16)
            new = np.uint64(narrow(fadd(before, np.float32(value)))) << shift
            seen = np.uint64(any_cas_u32(word, old, (old & ~mask) | new))
            if seen == old:
                return before
            old = seen

    return add_half


_add_f16 = _add_half(f16_to_f32, f32_to_f16)
_add_bf16 = _add_half(bf16_to_f32, f32_to_bf16)


@device_function
def add_f16(array: KernelArray, index: Index, value: Number) -> Number:
    """Add an fp32 number to an fp16 element atomically; the sum is rounded once.

    Args:
        array: Bit patterns, ``uint16``, in global or shared memory. The 4 aligned bytes around an
            element are swapped together.
        index: Of the element.
        value: What to add.

    Returns:
        The element before, as fp32.
    """
    return _add_f16(array, index, value)


@device_function
def add_bf16(array: KernelArray, index: Index, value: Number) -> Number:
    """Add an fp32 number to a bf16 element atomically; the sum is rounded once.

    Args:
        array: Bit patterns, ``uint16``, in global or shared memory. The 4 aligned bytes around an
            element are swapped together.
        index: Of the element.
        value: What to add.

    Returns:
        The element before, as fp32.
    """
    return _add_bf16(array, index, value)


__all__ = [
    "add",
    "add_bf16",
    "add_f16",
    "and_",
    "compare_exchange",
    "exchange",
    "fence",
    "load",
    "maximum",
    "minimum",
    "or_",
    "store",
    "sub",
    "xor",
]
