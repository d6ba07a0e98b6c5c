"""What the symbols of device libraries compute: the table of ``libdevice``'s functions, registered by symbol."""

from __future__ import annotations

import math
from collections.abc import Callable

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import maximum, minimum, where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.external import register_extern
from emu.triton.language.extra import bessel, directed, integers, special
from emu.triton.language.extra.bits import (
    apply,
    copysign,
    ilogb,
    is_finite,
    is_infinite,
    is_nan,
    like,
    logb,
    nextafter,
    round_away,
    scaled_by,
    sign_bit,
)
from emu.triton.language.extra.signatures import ROUNDINGS, SIGNATURES
from emu.triton.language.types import (
    dtype,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from emu.triton.language.values import tensor

Body = Callable[..., tensor]

_CODES = {
    **{name: Code[name.upper()] for name in (
        *("abs", "ceil", "floor", "trunc", "rint", "sqrt", "rsqrt", "exp", "exp2", "expm1"),
        *("log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "erf", "atan2", "fma", "mulhi"),
    )},
    "nearbyint": Code.RINT,
    "fmod": Code.REM,
    "fast_dividef": Code.DIV,
    "fast_powf": Code.POW,
    **{f"fast_{name}f": Code[name.upper()] for name in (
        *("sin", "cos", "tan", "tanh", "exp", "log", "log2", "log10"),
    )},
}  # fmt: skip
"""Functions that are operations of the tile IR."""


def _of_code(code: Code) -> Body:
    return lambda *operands: apply(code, *operands)


def _pow(x: tensor, y: tensor) -> tensor:
    return apply(Code.POW, x, cast_to(y, x.dtype))


def _exp10(x: tensor) -> tensor:
    return apply(Code.POW, like(x, 10.0), x)


def _asinh(x: tensor) -> tensor:
    # log1p keeps the digits of small numbers, which log of about 1 would lose; the square of a large one overflows.
    size = mathematics.abs(x)
    square = size * size
    small = apply(Code.LOG1P, size + square / (1 + mathematics.sqrt(square + 1)))
    large = mathematics.log(size) + math.log(2)
    return copysign(where(size > 1e9, large, small), x)


def _acosh(x: tensor) -> tensor:
    above = x - 1
    small = apply(Code.LOG1P, above + mathematics.sqrt(2 * above + above * above))
    return where(x > 1e9, mathematics.log(x) + math.log(2), small)


def _atanh(x: tensor) -> tensor:
    size = mathematics.abs(x)
    return copysign(apply(Code.LOG1P, 2 * size / (1 - size)) * 0.5, x)


def _fdim(x: tensor, y: tensor) -> tensor:
    return where(x <= y, 0.0, x - y)


def _saturate(x: tensor) -> tensor:
    return minimum(maximum(x, 0.0), 1.0)


def _whole(code: Code | None) -> Body:
    """Make the conversion to int64 after a rounding; without a code ties go away from zero."""

    def body(x: tensor) -> tensor:
        whole = round_away(x) if code is None else apply(code, x)
        return directed.nan_or(x, cast_to(whole, int64))

    return body


def _bits_as(to: dtype) -> Body:
    return lambda x: bitcast_to(x, to)


_PLAIN: dict[str, Body] = {
    "pow": _pow,
    "exp10": _exp10,
    "fast_exp10f": _exp10,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "fdim": _fdim,
    "copysign": copysign,
    "nextafter": nextafter,
    "round": round_away,
    "llrint": _whole(Code.RINT),
    "llround": _whole(None),
    "isnan": is_nan,
    "isinf": is_infinite,
    "finitef": is_finite,
    "isfinited": is_finite,
    "signbit": lambda x: cast_to(sign_bit(x), int32),
    "saturatef": _saturate,
    "ilogb": ilogb,
    "logb": logb,
    "ldexp": scaled_by,
    "scalbn": scaled_by,
    "rcp64h": special.rcp64h,
    "rsqrt_rn": special.in_double(_of_code(Code.RSQRT)),
    "float_as_int": _bits_as(int32),
    "float_as_uint": _bits_as(int32),
    "int_as_float": _bits_as(float32),
    "uint_as_float": _bits_as(float32),
    "longlong_as_double": _bits_as(float64),
    "double_as_longlong": _bits_as(int64),
}


def _rounded() -> dict[str, Body]:
    table: dict[str, Body] = {}
    integer = {"int": int32, "uint": uint32, "ll": int64, "ull": uint64}
    for mode in ROUNDINGS:
        for name in ("add", "sub", "mul", "div", "rcp", "sqrt"):
            table[f"{name}_{mode}"] = getattr(directed, name)(mode)
        table[f"fma_{mode}"] = directed.fused(mode)
        table[f"double2float_{mode}"] = directed.narrow(mode)
        for name, to in integer.items():
            for source, kind in (("float", float32), ("double", float64)):
                table[f"{source}2{name}_{mode}"] = directed.to_integer(mode, to)
                table[f"{name}2{source}_{mode}"] = directed.from_integer(mode, kind)
    return table


BODIES: dict[str, Body] = {
    **{name: _of_code(code) for name, code in _CODES.items()},
    **_PLAIN,
    **_rounded(),
    **special.FUNCTIONS,
    **bessel.FUNCTIONS,
    **integers.FUNCTIONS,
}
"""What each function of ``libdevice`` computes, by its name."""

# AMD's names where they are not CUDA's.
_OCML = {
    **{name: name for name in BODIES},
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
    "fabs": "abs",
    "ncdf": "normcdf",
    "ncdfinv": "normcdfinv",
    "len3": "norm3d",
    "rlen3": "rnorm3d",
    "len4": "norm4d",
    "rlen4": "rnorm4d",
    "isfinite": "finitef",
    "powr": "pow",
    "pown": "pow",
}
_HIP = {
    "iabs": "abs",
    "fabs": "abs",
    "llrint": "llrint",
    "fast_expf": "fast_expf",
    "fast_fdividef": "fast_dividef",
    "fast_tanhf": "fast_tanhf",
}


def _narrow_too(body: Body) -> Body:
    """Make a function of fp16: computed in fp32, and rounded once more."""

    def through(*operands: tensor) -> tensor:
        wide = [cast_to(o, float32) if o.dtype.is_floating() else o for o in operands]
        floats = [o.dtype for o in operands if o.dtype.is_floating()]
        result = body(*wide)
        return cast_to(result, floats[0]) if result.dtype.is_floating() else result

    return through


def _register() -> None:
    for name, overloads in SIGNATURES.items():
        for overload in overloads:
            register_extern(overload.symbol, BODIES[name])
    for symbol, name in _OCML.items():
        for width in ("f32", "f64"):
            register_extern(f"__ocml_{symbol}_{width}", BODIES[name])
        register_extern(f"__ocml_{symbol}_f16", _narrow_too(BODIES[name]))
    for symbol, name in _HIP.items():
        register_extern(f"__triton_hip_{symbol}", BODIES[name])


_register()
