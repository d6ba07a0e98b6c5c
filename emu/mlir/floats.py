"""Float formats: bits to and from numbers and text, as MLIR writes them.

Every format is described by its widths and by what its largest exponent means, so that one routine
encodes and decodes them all, exactly and rounding to nearest even. For f32 and f64, Python's own
conversion is used.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float format.

    Attributes:
        width: Total number of bits.
        exponent: Number of exponent bits.
        mantissa: Number of stored bits of the significand.
        bias: Bias of the exponent.
        special: "ieee" (infinities and NaNs in the largest exponent), "fn"
            (no infinity, all ones is NaN), "fnuz" (no infinity, minus zero is
            NaN), "finite" (neither).
        explicit: The leading bit of the significand is stored (f80).
        signed: Has a sign bit.
    """

    width: int
    exponent: int
    mantissa: int
    bias: int
    special: str = "ieee"
    explicit: bool = False
    signed: bool = True

    @property
    def precision(self) -> int:
        """Number of bits of the significand, the leading one included."""
        return self.mantissa + (0 if self.explicit else 1)


FORMATS: dict[str, FloatFormat] = {
    "f16": FloatFormat(16, 5, 10, 15),
    "bf16": FloatFormat(16, 8, 7, 127),
    "tf32": FloatFormat(19, 8, 10, 127),
    "f32": FloatFormat(32, 8, 23, 127),
    "f64": FloatFormat(64, 11, 52, 1023),
    "f80": FloatFormat(80, 15, 64, 16383, explicit=True),
    "f128": FloatFormat(128, 15, 112, 16383),
    "f8E5M2": FloatFormat(8, 5, 2, 15),
    "f8E4M3": FloatFormat(8, 4, 3, 7),
    "f8E3M4": FloatFormat(8, 3, 4, 3),
    "f8E4M3FN": FloatFormat(8, 4, 3, 7, "fn"),
    "f8E5M2FNUZ": FloatFormat(8, 5, 2, 16, "fnuz"),
    "f8E4M3FNUZ": FloatFormat(8, 4, 3, 8, "fnuz"),
    "f8E4M3B11FNUZ": FloatFormat(8, 4, 3, 11, "fnuz"),
    "f8E8M0FNU": FloatFormat(8, 8, 0, 127, "fn", signed=False),
    "f6E3M2FN": FloatFormat(6, 3, 2, 3, "finite"),
    "f6E2M3FN": FloatFormat(6, 2, 3, 1, "finite"),
    "f4E2M1FN": FloatFormat(4, 2, 1, 1, "finite"),
}


def byte_width(name: str) -> int:
    """Return the bytes that an element of the format takes in dense data."""
    return (FORMATS[name].width + 7) // 8


def value_of(bits: int, name: str) -> Fraction | float:
    """Decode bits: a fraction, or one of the floats inf, nan and -0.0."""
    f = FORMATS[name]
    sign = bits >> (f.width - 1) & 1 if f.signed else 0
    mantissa = bits & ((1 << f.mantissa) - 1)
    exponent = bits >> f.mantissa & ((1 << f.exponent) - 1)
    special = _special_value(f, sign, exponent, mantissa)
    if special is not None:
        return special
    fraction_bits = f.precision - 1
    if f.explicit or (exponent == 0 and f.mantissa):
        scale = max(exponent, 1)
    else:
        mantissa |= 1 << fraction_bits
        scale = exponent
    if not mantissa:
        return -0.0 if sign else Fraction(0)
    power = scale - f.bias - fraction_bits
    magnitude = Fraction(mantissa) * (Fraction(2) ** power)
    return -magnitude if sign else magnitude


def _special_value(f: FloatFormat, sign: int, exponent: int, mantissa: int) -> float | None:
    """Return the infinity or NaN that an encoding stands for, or None."""
    is_top = exponent == (1 << f.exponent) - 1
    if f.special == "ieee" and is_top:
        fraction = mantissa & ((1 << (f.mantissa - 1)) - 1) if f.explicit else mantissa
        return math.nan if fraction else (-math.inf if sign else math.inf)
    if f.special == "fn" and is_top and mantissa == (1 << f.mantissa) - 1:
        return math.nan
    if f.special == "fnuz" and sign and not exponent and not mantissa:
        return math.nan
    return None


def bits_of(value: Fraction | float, name: str) -> int:
    """Encode a number, rounded to nearest even.

    What has no encoding becomes the format's own substitute (``FloatFormat.special``): infinity,
    NaN or the largest finite number.
    """
    if isinstance(value, float) and name in ("f32", "f64"):
        return _native_bits(value, name)
    f, specials = FORMATS[name], _SPECIALS[name]
    negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
    sign = 1 << (f.width - 1) if negative and f.signed else 0
    if isinstance(value, float) and not math.isfinite(value):
        return sign | (specials.nan if math.isnan(value) else specials.infinity)
    bits = _rounded(abs(Fraction(value)), f)
    if bits >= specials.overflow:
        bits = specials.infinity
    # "fnuz" spends the encoding of minus zero on NaN.
    return sign | bits if bits or f.special != "fnuz" else 0


def _native_bits(value: float, name: str) -> int:
    """Encode in the two formats that Python knows itself."""
    try:
        return int.from_bytes(struct.pack("<d" if name == "f64" else "<f", value), "little")
    except OverflowError:  # f32 only
        return 0xFF800000 if value < 0 else 0x7F800000


def _rounded(magnitude: Fraction, f: FloatFormat) -> int:
    """Encode a number that is not negative as if exponents had no upper bound."""
    if not magnitude:
        return 0
    fraction_bits = f.precision - 1
    # Below the smallest exponent, numbers keep that exponent and lose digits (subnormals).
    exponent = max(_floor_log2(magnitude), 1 - f.bias if f.mantissa else -f.bias)
    scaled = magnitude / Fraction(2) ** (exponent - fraction_bits)
    digits = scaled.numerator // scaled.denominator
    rest = scaled - digits
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and digits & 1):
        digits += 1
    if digits >> f.precision:
        digits >>= 1
        exponent += 1
    biased = exponent + f.bias if digits >> fraction_bits else 0
    stored = digits if f.explicit else digits & ((1 << fraction_bits) - 1)
    return biased << f.mantissa | stored


class _Specials(NamedTuple):
    """Encodings, without a sign, that a format gives a meaning of their own.

    Attributes:
        infinity: What stands for infinity and for numbers that are too large.
        nan: What stands for NaN. For formats without one, the sign bit, as in LLVM.
        overflow: The first encoding that is too large for a number.
    """

    infinity: int
    nan: int
    overflow: int


def _specials(f: FloatFormat) -> _Specials:
    top = (1 << f.exponent) - 1
    ones = (1 << (f.exponent + f.mantissa)) - 1
    sign = 1 << (f.width - 1)
    if f.special == "ieee":
        leading = 1 << (f.mantissa - 1) if f.explicit else 0
        infinity = top << f.mantissa | leading
        return _Specials(infinity, infinity | 1 << (f.mantissa - 1 - f.explicit), top << f.mantissa)
    if f.special == "fn":
        return _Specials(ones, ones, ones)
    return _Specials(sign if f.special == "fnuz" else ones, sign, ones + 1)


_SPECIALS = {name: _specials(f) for name, f in FORMATS.items()}


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


@lru_cache(maxsize=65536)
def float_text(bits: int, name: str) -> str:
    """Return the number as MLIR writes it: decimal if that reads back, else hexadecimal."""
    value = value_of(bits, name)
    if isinstance(value, float):
        if value == 0:
            return "-0.000000e+00"
        return f"0x{bits:0{(FORMATS[name].width + 3) // 4}X}"
    if not value:
        return "0.000000e+00"
    value = Fraction(value)
    digits, exponent = _decimal_digits(value, 6)
    point = exponent + len(digits) - 1
    sign = "-" if value < 0 else ""
    short = f"{sign}{digits[0]}.{digits[1:]:0<6}e{'-' if point < 0 else '+'}{abs(point):02d}"
    if bits_of(Fraction(short), name) == bits:
        return short
    natural = sign + _natural(value, FORMATS[name].precision)
    if "." in natural:
        return natural
    return f"0x{bits:0{(FORMATS[name].width + 3) // 4}X}"


def _decimal_digits(value: Fraction, count: int) -> tuple[str, int]:
    """Return the first digits of a magnitude, and the power of ten of the last one.

    LLVM first truncates the exact decimal number to slightly more digits than wanted, and then
    rounds (half up) to the wanted number: 0.7 in f32 gives 699999 and not 700000 for six digits.
    """
    # The denominator is a power of two: N / 2^e is N 5^e / 10^e.
    exponent = -(value.denominator.bit_length() - 1)
    number = abs(value.numerator) * 5**-exponent
    surplus = number.bit_length() - (count * 196 + 58) // 59
    tens = surplus * 59 // 196 if surplus > 0 else 0
    number //= 10**tens
    exponent += tens
    digits = str(number)
    extra = len(digits) - count
    if extra > 0:
        number = number // 10**extra + (digits[count] >= "5")
        exponent += extra
        digits = str(number)
    stripped = digits.rstrip("0")
    return stripped, exponent + len(digits) - len(stripped)


def _natural(value: Fraction, precision: int) -> str:
    """Return LLVM's default form: as many digits as tell the number from its neighbours."""
    count = 2 + precision * 59 // 196
    digits, exponent = _decimal_digits(value, count)
    n = len(digits)
    point = exponent + n - 1
    scientific = exponent > 3 or n + exponent > count if exponent >= 0 else point < -3
    if scientific:
        return f"{digits[0]}.{digits[1:] or '0'}E{'-' if point < 0 else '+'}{abs(point)}"
    if exponent >= 0:
        return digits + "0" * exponent
    whole = exponent + n
    if whole > 0:
        return f"{digits[:whole]}.{digits[whole:]}"
    return f"0.{'0' * -whole}{digits}"
