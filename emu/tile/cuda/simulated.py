"""The functions of generated kernels as plain Python, for Numba's CUDA simulator.

Addresses go through :mod:`emu.kernels.cuda.simulated`, which refuses what is not aligned, or lies outside
of the memory that a launch was given.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from emu.kernels.cuda import simulated as memory
from emu.tile.cuda.expressions import register
from emu.tile.cuda.floats import FORMATS
from emu.tile.types import DTYPES, DType, Kind

Scalar: TypeAlias = Any
"""Content of a kernel's register: a NumPy scalar of its dtype, or a bool; literals are Python's numbers."""

DeviceFunction: TypeAlias = Callable[..., Scalar]

_lock = threading.Lock()


def wrap(value: int, dtype: DType) -> Scalar:
    """Return the integer of a dtype that is congruent to a Python integer."""
    low = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind is Kind.INT and low >> (dtype.bits - 1):
        low -= 1 << dtype.bits
    return dtype.numpy.type(low)


def _c_div(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shl(a: int, b: int, bits: int) -> int:
    return a << b if 0 <= b < bits else 0


def _shr(a: int, b: int, bits: int) -> int:
    return a >> (b if 0 <= b < bits else bits)


_INTEGER: dict[str, Callable[..., int]] = {  # pyright: ignore[reportAssignmentType]  # of operator's own types
    "neg": operator.neg,
    "not": operator.invert,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _c_div,
    "rem": lambda a, b: a - _c_div(a, b) * b,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "fma": lambda a, b, c: a * b + c,
    "xchg": lambda a, b: b,
}
_BOOLEAN: dict[str, Callable[..., bool]] = {
    "not": operator.not_,
    "add": operator.xor,
    "sub": operator.xor,
    "mul": operator.and_,
    "min": operator.and_,
    "max": operator.or_,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "xchg": lambda a, b: b,
}


def _integer(op: str, dtype: DType) -> DeviceFunction:
    if dtype.kind is Kind.BOOL:
        of_booleans = _BOOLEAN[op]
        return lambda *args: bool(of_booleans(*map(bool, args)))
    if op in ("shl", "shr"):
        shift = _shl if op == "shl" else _shr
        return lambda a, b: wrap(shift(int(a), int(b), dtype.bits), dtype)
    if op == "mulhi":
        return lambda a, b: wrap((int(a) * int(b)) >> dtype.bits, dtype)
    of_integers = _INTEGER[op]
    return lambda *args: wrap(of_integers(*map(int, args)), dtype)


_FLOAT: dict[str, DeviceFunction] = {
    "neg": operator.neg,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "rem": np.fmod,
    "min": np.fmin,
    "max": np.fmax,
    "minnan": np.minimum,
    "maxnan": np.maximum,
    "pow": np.power,
    "atan2": np.arctan2,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "erf": math.erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "xchg": lambda a, b: b,
}
# A plain operation has one rounding; the others are computed in fp64 and rounded.
_PLAIN = frozenset(("neg", "abs", "add", "sub", "mul", "div", "sqrt"))


def _float(op: str, dtype: DType) -> DeviceFunction:
    kind = dtype.numpy.type
    if op == "fma":
        return memory.fma32 if dtype.bits == 32 else memory.fma64
    function = _FLOAT[op]
    inner = kind if op in _PLAIN else np.float64

    def apply(*args: Scalar) -> Scalar:
        with np.errstate(all="ignore"):
            return kind(function(*map(inner, args)))

    return apply


def _cast(source: DType, target: DType) -> Callable[[Scalar], Scalar]:
    kind = target.numpy.type
    if target.kind is Kind.BOOL:
        return lambda a: bool(a != 0)
    if not source.is_float:
        if target.is_float:
            whole = np.uint64 if source.name == "u64" else np.int64
            return lambda a: whole(int(a)).astype(kind)
        return lambda a: wrap(int(a), target)
    if target.is_float:

        def narrow(a: Scalar) -> Scalar:
            with np.errstate(all="ignore"):
                return kind(a)

        return narrow
    low, high = target.limits

    def saturate(a: Scalar) -> Scalar:
        a = float(a)
        if math.isnan(a):
            return kind(0)
        if math.isinf(a):
            return kind(high if a > 0 else low)
        return kind(min(max(int(a), low), high))

    return saturate


def _toward_zero(a: Scalar) -> Scalar:
    with np.errstate(all="ignore"):
        near = np.float32(a)
        if np.isfinite(near) and abs(np.float64(near)) > abs(np.float64(a)):
            return np.nextafter(near, np.float32(0))
        if np.isinf(near) and not np.isinf(a):
            return np.copysign(np.finfo(np.float32).max, near)
        return near


def _odd(a: Scalar) -> Scalar:
    low = _toward_zero(a)
    if np.float64(low) == np.float64(a) or np.isnan(a):
        return low
    return np.uint32(low.view(np.uint32) | np.uint32(1)).view(np.float32)


def _integer_odd(a: Scalar) -> Scalar:
    magnitude = abs(int(a))
    if magnitude >= 1 << 53:
        magnitude = (magnitude >> 11 | (magnitude & 0x7FF != 0)) << 11
    return np.float64(-magnitude if a < 0 else magnitude)


def _round(dtype: DType) -> Callable[[Scalar], Scalar]:
    kind = dtype.numpy.type

    def apply(a: Scalar) -> Scalar:
        with np.errstate(all="ignore"):
            return np.float32(kind(np.float32(a)))

    return apply


def _truncate(dtype: DType) -> Callable[[Scalar], Scalar]:
    kind = dtype.numpy.type
    pattern = dtype.as_unsigned().numpy

    def apply(a: Scalar) -> Scalar:
        with np.errstate(all="ignore"):
            a = np.float32(a)
            near = kind(a)
            # Where nearest went away from zero (even to infinity or NaN), one pattern less is the next.
            value = np.float32(near)
            if np.isfinite(a) and not abs(value) <= abs(a):
                bits = np.asarray(near).view(pattern)
                near = _largest(dtype, a) if not np.isfinite(value) else _below(bits, dtype)
            return np.float32(near)

    return apply


def _below(bits: Scalar, dtype: DType) -> Scalar:
    return np.asarray(bits - bits.dtype.type(1)).view(dtype.numpy)[()]


def _largest(dtype: DType, like: Scalar) -> Scalar:
    return np.copysign(np.float32(FORMATS[dtype.name].largest), like)


def _bits(dtype: DType) -> Callable[[Scalar], Scalar]:
    def apply(a: Scalar) -> Scalar:
        with np.errstate(all="ignore"):
            return np.asarray(a).astype(dtype.numpy).view(dtype.as_unsigned().numpy)[()]

    return apply


def _from(dtype: DType) -> Callable[[Scalar], Scalar]:
    unsigned = dtype.as_unsigned().numpy.type
    wide = np.float64 if dtype.bits == 64 else np.float32
    mask = (1 << dtype.bits) - 1

    def apply(bits: Scalar) -> Scalar:
        return wide(np.asarray(unsigned(int(bits) & mask)).view(dtype.numpy)[()])

    return apply


def _to_memory(dtype: DType) -> Callable[[Scalar], int]:
    bits = _bits(dtype) if dtype.is_float else None
    mask = (1 << dtype.bits) - 1
    return (lambda a: int(bits(a))) if bits else (lambda a: int(a) & mask)


def _from_memory(dtype: DType) -> Callable[[int], Scalar]:
    if dtype.is_float:
        return _from(dtype)
    return (lambda b: bool(b)) if dtype.kind is Kind.BOOL else (lambda b: wrap(b, dtype))


def _load(dtype: DType) -> Callable[[Scalar], Scalar]:
    raw = getattr(memory, f"load_{dtype.bytes * 8}")
    convert = _from_memory(dtype)
    return lambda address: convert(raw(int(address)))


def _store(dtype: DType) -> Callable[[Scalar, Scalar], None]:
    raw = getattr(memory, f"store_{dtype.bytes * 8}")
    convert = _to_memory(dtype)
    return lambda address, value: raw(int(address), convert(value))


def _extreme(kind: str, dtype: DType) -> DeviceFunction:
    """Return what chooses a float by the order of the bits, in which a NaN is beyond the infinity of its sign."""
    width = dtype.numpy.itemsize

    def key(value: Scalar) -> int:
        bits = int(np.asarray(value, dtype.numpy).view(f"i{width}"))
        return bits ^ (((1 << (8 * width - 1)) - 1) if bits < 0 else 0)

    def choose(old: Scalar, value: Scalar) -> Scalar:
        wins = key(value) > key(old) if kind == "max" else key(value) < key(old)
        return value if wins else old

    return choose


def _atomic(kind: str, dtype: DType) -> DeviceFunction:
    load, store = _load(dtype), _store(dtype)
    held = register(dtype)
    if not dtype.is_float:
        change = _integer(kind, held)
    elif kind in ("min", "max"):
        change = _extreme(kind, dtype)
    else:
        change = _float(kind, held)

    def update(address: Scalar, value: Scalar) -> Scalar:
        with _lock:
            old = load(address)
            store(address, change(old, value))
            return old

    return update


def _cas(dtype: DType) -> Callable[[Scalar, Scalar, Scalar], Scalar]:
    load, store, bits = _load(dtype), _store(dtype), _to_memory(dtype)

    def swap(address: Scalar, expected: Scalar, new: Scalar) -> Scalar:
        with _lock:
            old = load(address)
            if bits(old) == bits(expected):
                store(address, new)
            return old

    return swap


def address(pointer: Scalar, offset: Scalar, size: Scalar) -> Scalar:
    """Return a pointer moved by a number of elements of some size in bytes."""
    return wrap(int(pointer) + int(offset) * int(size), DTYPES["i64"])


def load_ptr(at: Scalar) -> Scalar:
    """Load a pointer."""
    return wrap(memory.load_64(int(at)), DTYPES["i64"])


def store_ptr(at: Scalar, value: Scalar) -> None:
    """Store a pointer."""
    memory.store_64(int(at), int(value) & (1 << 64) - 1)


_WHOLE: dict[str, DeviceFunction] = {
    "address": address,
    "load_ptr": load_ptr,
    "store_ptr": store_ptr,
    "castrz_f64_f32": _toward_zero,
    "castodd_f64_f32": _odd,
    "castodd_i64_f64": _integer_odd,
    "castodd_u64_f64": _integer_odd,
}


@functools.cache
def make(name: str) -> Scalar:
    """Return the function of a name; the names are those of :mod:`emu.tile.cuda.functions`.

    Raises:
        AttributeError: There is none of that name.
    """
    if name in _WHOLE:
        return _WHOLE[name]
    op, *rest = name.split("_")
    try:
        dtypes = [DTYPES[part] for part in rest if part in DTYPES]
        if op == "cast":
            return _cast(*dtypes)
        if op == "atomic":
            return _cas(dtypes[0]) if rest[0] == "cas" else _atomic(rest[0], dtypes[0])
        simple = {
            "round": _round,
            "truncate": _truncate,
            "bits": _bits,
            "from": _from,
            "load": _load,
            "store": _store,
        }
        if op in simple:
            return simple[op](dtypes[0])
        return _float(op, dtypes[0]) if dtypes[0].is_float else _integer(op, dtypes[0])
    except (KeyError, IndexError):
        raise AttributeError(f"there is no function {name}") from None
