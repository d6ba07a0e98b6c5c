"""The primitives as plain Python, for Numba's CUDA simulator.

They check what a device would not forgive: an access must be aligned to its width, and must lie
within the arrays that the launch was given. Each means exactly what its compiled twin in
:mod:`emu.kernels.cuda.intrinsics` means, down to the rounding.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from emu.kernels.core.annotations import Array, Index, KernelArray, Number, Real

_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1
Word: TypeAlias = type[c_uint8 | c_uint16 | c_uint32 | c_uint64]
_atomic = threading.Lock()
_allowed: list[tuple[int, int]] = []


@contextlib.contextmanager
def allowed(windows: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Let kernels touch these byte ranges (start, end), and nothing else, for a while."""
    _allowed[:] = windows
    try:
        yield
    finally:
        _allowed.clear()


def _checked(address: int, nbytes: int) -> int:
    if address % nbytes:
        raise ValueError(f"a {nbytes}-byte access must be aligned, but got address {address:#x}")
    if not any(start <= address and address + nbytes <= end for start, end in _allowed):
        raise IndexError(
            f"a {nbytes}-byte access must lie in an argument's memory, but got address "
            f"{address:#x}, outside of {[(hex(a), hex(b)) for a, b in _allowed]}"
        )
    return int(address)


def _load(kind: Word) -> Callable[[int], int]:
    def load(address: int) -> int:
        return int(kind.from_address(_checked(address, ctypes.sizeof(kind))).value)

    return load


def _store(kind: Word) -> Callable[[int, int], None]:
    def store(address: int, bits: int) -> None:
        kind.from_address(_checked(address, ctypes.sizeof(kind))).value = int(bits)

    return store


load_8, load_16, load_32, load_64 = (
    _load(kind) for kind in (c_uint8, c_uint16, c_uint32, c_uint64)
)
store_8, store_16, store_32, store_64 = (
    _store(kind) for kind in (c_uint8, c_uint16, c_uint32, c_uint64)
)


def load_128(address: int) -> tuple[int, int]:
    """Load 16 aligned bytes as a pair of 64-bit patterns, the lower address first."""
    _checked(address, 16)
    return load_64(address), load_64(address + 8)


def store_128(address: int, low: int, high: int) -> None:
    """Store 16 aligned bytes."""
    _checked(address, 16)
    store_64(address, low)
    store_64(address + 8, high)


def as_f32(bits: int) -> Real:
    """Return the fp32 number of a pattern."""
    return np.uint32(int(bits) & _MASK_32).view(np.float32)


def as_f64(bits: int) -> Real:
    """Return the fp64 number of a pattern."""
    return np.uint64(bits).view(np.float64)


def bits_f32(value: Real) -> int:
    """Return the pattern of an fp32 number."""
    return int(np.float32(value).view(np.uint32))


def bits_f64(value: Real) -> int:
    """Return the pattern of an fp64 number."""
    return int(np.float64(value).view(np.uint64))


def f16_to_f32(bits: int) -> Real:
    """Widen an fp16 pattern; exact."""
    return np.float32(np.uint16(int(bits) & 0xFFFF).view(np.float16))


def f32_to_f16(value: Real) -> int:
    """Round to an fp16 pattern, to nearest, ties to even."""
    with np.errstate(all="ignore"):
        return int(np.float16(np.float32(value)).view(np.uint16))


def _signed(bits: int, width: int) -> int:
    low = int(bits) & ((1 << width) - 1)
    return low - (1 << width) if low >> (width - 1) else low


def signed_8(bits: int) -> int:
    """Return the low 8 bits as a signed integer."""
    return _signed(bits, 8)


def signed_32(bits: int) -> int:
    """Return the low 32 bits as a signed integer."""
    return _signed(bits, 32)


def signed_64(bits: int) -> int:
    """Return 64 bits as a signed integer."""
    return _signed(bits, 64)


def unsigned(index: int) -> int:
    """Return an index that is not negative."""
    if index < 0:
        raise IndexError(f"an index must not be negative, but got {index}")
    return index


def int_f32(value: int) -> Real:
    """Round an integer to fp32."""
    return np.int64(value).astype(np.float32)


def divide(index: int, extent: int) -> int:
    """Divide integers below 2**32."""
    if not (0 <= index <= _MASK_32 and 0 < extent <= _MASK_32):
        raise ValueError(f"a 32-bit division must be given 32-bit numbers, but got {index, extent}")
    return index // extent


def imul_add(total: Number, a: Number, b: Number) -> np.int32:
    """Return ``total + a * b`` as an int32 that wraps."""
    return np.int32(_signed(int(total) + int(a) * int(b), 32))


def fadd(a: Real, b: Real) -> Real:
    """Add in fp32."""
    with np.errstate(all="ignore"):
        return np.float32(a) + np.float32(b)


def fmul(a: Real, b: Real) -> Real:
    """Multiply in fp32."""
    with np.errstate(all="ignore"):
        return np.float32(a) * np.float32(b)


def fdiv(a: Real, b: Real) -> Real:
    """Divide in fp32."""
    with np.errstate(all="ignore"):
        return np.float32(a) / np.float32(b)


def fadd64(a: Real, b: Real) -> Real:
    """Add in fp64."""
    with np.errstate(all="ignore"):
        return np.float64(a) + np.float64(b)


def fmul64(a: Real, b: Real) -> Real:
    """Multiply in fp64."""
    with np.errstate(all="ignore"):
        return np.float64(a) * np.float64(b)


def fma32(a: Real, b: Real, c: Real) -> Real:
    """Return ``a * b + c`` in fp32 with one rounding."""
    with np.errstate(all="ignore"):
        product, c = np.float64(a) * np.float64(b), np.float64(c)  # the product is exact
        total = product + c
        if np.isfinite(total):
            # Round to odd: then the step to fp32 rounds as if it saw the exact sum.
            part = total - product
            error = (product - (total - part)) + (c - part)
            if error != 0 and not int(total.view(np.uint64)) & 1:
                total = np.nextafter(total, np.inf if error > 0 else -np.inf)
        return np.float32(total)


def fma64(a: Real, b: Real, c: Real) -> Real:
    """Return ``a * b + c`` in fp64 with one rounding."""
    a, b, c = float(a), float(b), float(c)
    with np.errstate(all="ignore"):
        plain = np.float64(a) * np.float64(b) + np.float64(c)
    if not all(map(math.isfinite, (a, b, c))):
        # A finite product is never infinite, be it too large for fp64.
        return np.float64(c) if math.isfinite(a) and math.isfinite(b) else plain
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return plain if plain == 0 else np.float64(0.0)
    try:
        return np.float64(float(exact))
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def _cas(
    load: Callable[[int], int], store: Callable[[int, int], None]
) -> Callable[[int, int, int], int]:
    def cas(address: int, expected: int, value: int) -> int:
        with _atomic:
            old = load(address)
            if old == int(expected):
                store(address, value)
            return old

    return cas


cas_u32 = _cas(load_32, store_32)


def any_load_u32(address: int) -> int:
    """Load 4 aligned bytes from any memory: of the caller's own arrays, so without a window."""
    return int(c_uint32.from_address(address).value)


def any_cas_u32(address: int, expected: int, value: int) -> int:
    """Compare and swap 4 aligned bytes in any memory."""
    with _atomic:
        word = c_uint32.from_address(address)
        old = int(word.value)
        if old == int(expected):
            word.value = int(value) & _MASK_32
        return old


def add_u32_at(address: int, value: int) -> None:
    """Add to 32 bits atomically; wraps."""
    with _atomic:
        store_32(address, (load_32(address) + int(value)) & _MASK_32)


def add_u64_at(address: int, value: int) -> None:
    """Add to 64 bits atomically; wraps."""
    with _atomic:
        store_64(address, (load_64(address) + int(value)) & _MASK_64)


def add_f64_at(address: int, value: Real) -> None:
    """Add to an fp64 number atomically."""
    with _atomic:
        store_64(address, bits_f64(fadd64(as_f64(load_64(address)), value)))


def plain(array: KernelArray) -> Array:
    """Return the NumPy array behind an array that a simulated kernel sees, which is wrapped twice."""
    while not isinstance(array, np.ndarray):
        array = object.__getattribute__(array, "__dict__").get("_item") or array._ary
    return array


def address_of_half(array: KernelArray, index: Index) -> int:
    """Return the address of an element of a ``uint16`` array; the index must lie inside."""
    memory = plain(array)
    if memory.dtype != np.uint16:
        raise TypeError(f"array must have dtype uint16, but got {memory.dtype}")
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) != memory.ndim or not all(
        0 <= i < n for i, n in zip(indices, memory.shape, strict=True)
    ):
        raise IndexError(f"the index must lie within {memory.shape}, but got {index}")
    steps = zip(indices, memory.strides, strict=True)
    return int(memory.ctypes.data) + sum(int(i) * step for i, step in steps)


_INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
_NUMBERS = (*_INTEGERS, np.float32, np.float64)


def _updated(
    array: KernelArray,
    index: Index,
    change: Callable[[Number], Number],
    kinds: tuple[type[np.generic], ...],
) -> Number:
    """Replace an element by a function of it, atomically, and return what it was.

    The array's dtype must be one that the compiled function takes too: the simulator's own atomic
    functions take any, and what works there may not compile.
    """
    memory = plain(array)
    if memory.dtype not in kinds:
        raise TypeError(
            f"array must have one of the dtypes {', '.join(kind.__name__ for kind in kinds)}, "
            f"but got {memory.dtype}"
        )
    with _atomic, np.errstate(all="ignore"):
        old = memory[index]
        memory[index] = change(old)
        return old


def load(array: KernelArray, index: Index) -> Number:
    """Return an element."""
    return _updated(array, index, lambda old: old, _NUMBERS)


def store(array: KernelArray, index: Index, value: Number) -> None:
    """Store an element."""
    _updated(array, index, lambda old: value, _NUMBERS)


def add(array: KernelArray, index: Index, value: Number) -> Number:
    """Add to an element; integers wrap."""
    return _updated(array, index, lambda old: old + old.dtype.type(value), _NUMBERS)


def sub(array: KernelArray, index: Index, value: Number) -> Number:
    """Subtract from an element; integers wrap."""
    return _updated(array, index, lambda old: old - old.dtype.type(value), _NUMBERS)


def minimum(array: KernelArray, index: Index, value: Number) -> Number:
    """Replace an element by a smaller value."""
    return _updated(array, index, lambda old: min(old, old.dtype.type(value)), _NUMBERS)


def maximum(array: KernelArray, index: Index, value: Number) -> Number:
    """Replace an element by a larger value."""
    return _updated(array, index, lambda old: max(old, old.dtype.type(value)), _NUMBERS)


def and_(array: KernelArray, index: Index, value: Number) -> Number:
    """And the bits of an element."""
    return _updated(array, index, lambda old: old & old.dtype.type(value), _INTEGERS)


def or_(array: KernelArray, index: Index, value: Number) -> Number:
    """Or the bits of an element."""
    return _updated(array, index, lambda old: old | old.dtype.type(value), _INTEGERS)


def xor(array: KernelArray, index: Index, value: Number) -> Number:
    """Exclusive-or the bits of an element."""
    return _updated(array, index, lambda old: old ^ old.dtype.type(value), _INTEGERS)


def exchange(array: KernelArray, index: Index, value: Number) -> Number:
    """Replace an element."""
    return _updated(array, index, lambda old: value, _INTEGERS)


def compare_exchange(array: KernelArray, index: Index, expected: Number, value: Number) -> Number:
    """Replace an element that is as expected."""
    return _updated(array, index, lambda old: value if old == expected else old, _INTEGERS)


def fence() -> None:
    """Order memory; Python's threads need none."""
