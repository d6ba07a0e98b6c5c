"""The conversions of PTX: ``cvt``, to narrow and packed floats, too."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import maximum, minimum, where
from emu.triton.language.assembly.arithmetic import finished, mode_of
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra import directed
from emu.triton.language.extra.bits import apply, copysign, is_nan, like, unsigned
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    uint8,
    uint16,
    uint32,
)
from emu.triton.language.values import tensor

Suffixes = Sequence[str]

_INTEGRAL = {"rni": Code.RINT, "rzi": Code.TRUNC, "rmi": Code.FLOOR, "rpi": Code.CEIL}
_TO_INTEGER = {Code.RINT: "rn", Code.TRUNC: "rz", Code.FLOOR: "rd", Code.CEIL: "ru"}

_HALVES = {"f16x2": float16, "bf16x2": bfloat16}
_BYTES = {"e4m3x2": float8e4nv, "e5m2x2": float8e5}
_LARGEST = {"e4m3x2": 448.0, "e5m2x2": 57344.0, "f16": 65504.0, "bf16": 3.3895313892515355e38}

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def to_tf32(x: tensor, suffixes: Suffixes) -> tensor:
    """Round fp32 to 10 bits after the point; the rest of the bits is 0."""
    bits = unsigned(x)
    if "rna" in suffixes:
        rounded = bits + 0x1000
    elif "rz" in suffixes:
        rounded = bits
    else:
        rounded = bits + 0xFFF + ((bits >> 13) & 1)
    kept = bitcast_to(rounded & 0xFFFFE000, float32)
    kept = finished(kept, [s for s in suffixes if s == "relu"])
    return where(mathematics.abs(x) < float("inf"), kept, x)


def to_e2m1(x: tensor) -> tensor:
    """Return the four bits of each number's nearest e2m1, ties to even, as uint8; the largest is 6."""
    size = mathematics.abs(x)
    code = cast_to(like(size, 0.0), uint8)
    for place in range(1, len(_E2M1)):
        middle = (_E2M1[place - 1] + _E2M1[place]) / 2
        reached = size >= middle if place % 2 == 0 else size > middle
        code = code + cast_to(reached, uint8)
    sign = cast_to(unsigned(x) >> 31, uint8) << 3
    # NaN becomes the largest number, without a sign.
    return where(is_nan(x), 7, code | sign)


def from_e2m1(code: tensor) -> tensor:
    """Return the numbers of four bits each as fp16."""
    size = cast_to(code & 7, float32)
    value = where(size < 4, size * 0.5, where(size == 7, 6.0, size - 2))
    signed = where((code & 8) != 0, -value, value)
    return cast_to(signed, float16)


def _to_byte(x: tensor, kind: str, suffixes: Suffixes) -> tensor:
    """Return an 8-bit float's bits as uint8, the largest in the place of what is larger."""
    x = cast_to(x, float32)
    if kind == "ue8m0x2":
        return _to_e8m0(x, suffixes)
    x = finished(x, [s for s in suffixes if s == "relu"])
    largest = _LARGEST[kind]
    inside = minimum(maximum(x, -largest), largest)
    bits = bitcast_to(cast_to(inside, _BYTES[kind]), uint8)
    return where(is_nan(x), 0x7F, bits)


def _to_e8m0(x: tensor, suffixes: Suffixes) -> tensor:
    """Return the power of two below a number (or above it), by its exponent as uint8."""
    bits = unsigned(x) & 0x7FFFFFFF
    up = "rp" in suffixes
    exponent = (bits >> 23) + (cast_to((bits & 0x7FFFFF) != 0, uint32) if up else 0)
    # The smallest power, 2**-127, is itself a subnormal number of fp32.
    if up:
        exponent = where(bits <= 0x400000, 0, exponent)
    exponent = minimum(exponent, 254)
    return where(is_nan(x), 0xFF, cast_to(exponent, uint8))


def _from_byte(bits: tensor, kind: str, to: dtype) -> tensor:
    if kind == "ue8m0x2":
        exponent = cast_to(bits, uint32)
        value = bitcast_to(where(exponent == 0, 0x400000, exponent << 23), float32)
        return cast_to(where(exponent == 0xFF, float("nan"), value), to)
    return cast_to(cast_to(bitcast_to(bits, _BYTES[kind]), float32), to)


def packed_to(kind: str, high: tensor, low: tensor, suffixes: Suffixes) -> tensor | None:
    """Convert two fp32 to a pair of narrow floats; ``None`` if there is no such pair."""
    if kind in _HALVES:
        halves = [
            cast_to(unsigned(narrowed(v, _HALVES[kind], suffixes)), uint32) for v in (high, low)
        ]
        return (halves[0] << 16) | halves[1]
    if kind == "e2m1x2":
        relu = [s for s in suffixes if s == "relu"]
        codes = [to_e2m1(finished(cast_to(v, float32), relu)) for v in (high, low)]
        return (codes[0] << 4) | codes[1]
    if kind in _BYTES or kind == "ue8m0x2":
        codes = [cast_to(_to_byte(v, kind, suffixes), uint16) for v in (high, low)]
        return (codes[0] << 8) | codes[1]
    return None


def unpacked_from(kind: str, bits: tensor, to: str, suffixes: Suffixes) -> tensor | None:
    """Convert a pair of narrow floats to a pair of 16-bit ones; ``None`` if there is no such pair."""
    if to not in _HALVES:
        return None
    half = _HALVES[to]
    if kind == "e2m1x2":
        byte = cast_to(bits, uint8)
        pair = [cast_to(from_e2m1(byte >> place & 15), half) for place in (4, 0)]
    elif kind in _BYTES or kind == "ue8m0x2":
        pair = [_from_byte(cast_to(bits >> place, uint8), kind, half) for place in (8, 0)]
    else:
        return None
    words = [
        cast_to(unsigned(finished(p, [s for s in suffixes if s == "relu"])), uint32) for p in pair
    ]
    return (words[0] << 16) | words[1]


def pair_of_halves(kind: str, bits: tensor) -> tuple[tensor, tensor]:
    """Return the upper and the lower of two 16-bit floats as fp32."""
    halves = [cast_to(bits >> place, uint16) for place in (16, 0)]
    wide = [cast_to(bitcast_to(h, _HALVES[kind]), float32) for h in halves]
    return wide[0], wide[1]


def narrowed(x: tensor, to: dtype, suffixes: Suffixes) -> tensor:
    """Convert a float to a narrower one."""
    mode = mode_of(suffixes)
    if to == float32:
        value = directed.narrow(mode)(x)
    else:
        value = cast_to(x, to, "rtz" if mode == "rz" else None)
        if mode in ("rd", "ru"):
            value = directed.stepped(value, x - cast_to(value, x.dtype), mode)
    if "satfinite" in suffixes and to.name in _LARGEST_BY_NAME:
        largest = _LARGEST_BY_NAME[to.name]
        wide = cast_to(value, float32)
        limited = where(is_nan(wide), wide, minimum(maximum(wide, -largest), largest))
        value = cast_to(limited, to)
    return finished(value, suffixes)


_LARGEST_BY_NAME = {"fp16": _LARGEST["f16"], "bf16": _LARGEST["bf16"]}


def converted(x: tensor, to: dtype, suffixes: Suffixes) -> tensor:
    """Convert between integers and floats of at least 16 bits."""
    source = x.dtype
    code = next((_INTEGRAL[s] for s in suffixes if s in _INTEGRAL), None)
    if source.is_floating() and to.is_int():
        wide = x if source in (float32, float64) else cast_to(x, float32)
        return directed.to_integer(_TO_INTEGER[code or Code.TRUNC], to)(wide)
    if source.is_floating():
        if code is not None:
            x = copysign(apply(code, x), x)
        if to.primitive_bitwidth < source.primitive_bitwidth:
            return narrowed(x, to, suffixes)
        return finished(cast_to(x, to), suffixes)
    if to.is_floating():
        if to in (float32, float64):
            wide = x if source.primitive_bitwidth >= 32 else cast_to(x, _word(source))
            return directed.from_integer(mode_of(suffixes), to)(wide)
        return finished(cast_to(x, to), suffixes)
    if "sat" in suffixes:
        x = _clamped(x, to)
    return cast_to(x, to)


def _word(source: dtype) -> dtype:
    return dtype("int32" if source.is_int_signed() else "uint32")


def _clamped(x: tensor, to: dtype) -> tensor:
    low, high = to.get_int_min_value(), to.get_int_max_value()
    low, high = max(low, x.dtype.get_int_min_value()), min(high, x.dtype.get_int_max_value())
    return minimum(maximum(x, low), high)
