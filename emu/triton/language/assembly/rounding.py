"""Conversions of PTX that round up or down as random bits say: ``cvt.rs``.

Of the numbers above and below, both in size, the one above is taken if the random bits, added to as many bits of the
part that is cut off, carry. PTX's own text gives no places of the random bits within their word: here those for a result
start at the bit where the result starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.triton.language import mathematics
from emu.triton.language.arithmetic import maximum, minimum, where
from emu.triton.language.assembly.conversions import from_e2m1, to_e2m1
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra.bits import is_nan, like, unsigned
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    get_int_dtype,
    uint8,
    uint32,
)
from emu.triton.language.values import tensor

_KINDS: dict[str, tuple[dtype, int]] = {
    "f16x2": (float16, 13),
    "bf16x2": (bfloat16, 16),
    "e4m3x4": (float8e4nv, 8),
    "e5m2x4": (float8e5, 8),
}
"""The dtype of each result, and how many random bits it takes."""

_LARGEST = {"fp16": 65504.0, "bf16": 3.3895313892515355e38, "fp8e4nv": 448.0, "fp8e5": 57344.0}
_BITS_OF_E2M1 = 8


def randomly_packed_to(
    kind: str, values: Sequence[tensor], random: tensor, suffixes: Sequence[str]
) -> tensor | None:
    """Convert fp32 to narrow floats, the first in the highest bits; ``None`` if there is no such kind."""
    if "relu" in suffixes:
        values = [where(is_nan(v), v, maximum(v, 0.0)) for v in values]
    if kind == "e2m1x4":
        codes, width = [], 4
        for place, value in enumerate(reversed(values)):
            codes.append(_e2m1(value, _taken(random, place * 8, _BITS_OF_E2M1)))
    elif kind in _KINDS:
        to, count = _KINDS[kind]
        width = to.primitive_bitwidth
        codes = [
            _float(value, to, _taken(random, place * width, count), count, suffixes)
            for place, value in enumerate(reversed(values))
        ]
    else:
        return None
    word = cast_to(codes[0], uint32)
    for place, code in enumerate(codes[1:], 1):
        word = word | (cast_to(code, uint32) << (place * width))
    return word


def _taken(random: tensor, start: int, count: int) -> tensor:
    return cast_to((random >> start) & ((1 << count) - 1), float32)


def _carries(rest: tensor, step: tensor, random: tensor, count: int) -> tensor:
    """Return whether the random bits carry over the first ``count`` bits of ``rest / step``."""
    # A rest is a multiple of its number's last bit, and a step a power of two: all of this is exact.
    cut = mathematics.floor(rest / step * 2.0**count)
    return cut + random >= 2.0**count


def _e2m1(x: tensor, random: tensor) -> tensor:
    size = minimum(mathematics.abs(x), 6.0)
    nearest = to_e2m1(size)
    code = nearest - cast_to(cast_to(from_e2m1(nearest), float32) > size, uint8)
    below = cast_to(from_e2m1(code), float32)
    step = where(code < 4, 0.5, where(code < 6, like(size, 1.0), 2.0))
    code = code + cast_to(_carries(size - below, step, random, _BITS_OF_E2M1), uint8)
    sign = cast_to(unsigned(x) >> 31, uint8) << 3
    return where(is_nan(x), 7, code | sign)  # NaN becomes the largest number, without a sign


def _float(x: tensor, to: dtype, random: tensor, count: int, suffixes: Sequence[str]) -> tensor:
    bits = get_int_dtype(to.primitive_bitwidth, False)
    largest, size = _LARGEST[to.name], mathematics.abs(x)
    if to in (float8e4nv, float8e5) or "satfinite" in suffixes:
        size = where(is_nan(x), x, minimum(size, largest))
    inside = minimum(size, largest)
    nearest = cast_to(inside, to)
    code = bitcast_to(nearest, bits)
    code = code - cast_to(cast_to(nearest, float32) > inside, bits)
    below = cast_to(bitcast_to(code, to), float32)
    # The step above the largest number is the one below it: what lies beyond becomes infinite.
    is_last = below == largest
    others = cast_to(bitcast_to(where(is_last, code - 1, code + 1), to), float32)
    step = mathematics.abs(others - below)
    code = code + cast_to(_carries(size - below, step, random, count), bits)
    sign = cast_to(unsigned(x) >> 31, bits) << (to.primitive_bitwidth - 1)
    if to in (float8e4nv, float8e5):
        return where(is_nan(x), 0x7F, code | sign)
    return where(is_nan(x), bitcast_to(cast_to(x, to), bits), code | sign)
