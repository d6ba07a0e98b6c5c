"""CUDA's device functions, as far as the tile IR can express them.

Each takes tensors (or numbers) of exactly the dtypes that it lists, as in Triton. A function that is not
implemented can be imported, and raises ``NotImplementedError`` when it is called. The stub beside this file
tells static tools the names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from emu.tile.ops import Code
from emu.triton.language import conversion, mathematics
from emu.triton.language.arithmetic import maximum, minimum, not_equal, where
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to, to_tensor
from emu.triton.language.extra.names import NAMES
from emu.triton.language.shapes import broadcast_tensors
from emu.triton.language.types import (
    dtype,
    float32,
    float64,
    get_int_dtype,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)
from emu.triton.language.values import TensorLike, tensor

Signature = tuple[str, ...]

_F: list[Signature] = [("fp32",), ("fp64",)]
_FF: list[Signature] = [("fp32", "fp32"), ("fp64", "fp64")]
_FFF: list[Signature] = [("fp32",) * 3, ("fp64",) * 3]
_S: list[Signature] = [("fp32",)]
_SS: list[Signature] = [("fp32", "fp32")]

_functions: dict[str, Callable[..., tensor]] = {}


def _define(
    name: str, signatures: list[Signature], body: Callable[..., tensor], summary: str
) -> None:
    """Make a function that checks dtypes and broadcasts its operands to one shape."""

    def function(*arguments: TensorLike) -> tensor:
        operands = [to_tensor(a) for a in arguments]
        if tuple(o.dtype.name for o in operands) not in signatures:
            accepted = " or ".join(f"({', '.join(s)})" for s in signatures)
            raise TypeError(
                f"libdevice.{name} takes {accepted}, but got ({', '.join(map(str, operands))})"
            )
        return body(*broadcast_tensors(*operands))

    listed = "; ".join(", ".join(s) for s in signatures)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{summary}\n\n    Takes {listed}.\n    "
    _functions[name] = function


def _code(code: Code) -> Callable[..., tensor]:
    def body(*operands: tensor) -> tensor:
        emit, first = builder(), operands[0]
        if code is Code.FMA:
            handle = emit.fma(*(o.handle for o in operands))
        elif len(operands) == 2:
            handle = emit.binary(code, first.handle, operands[1].handle)
        else:
            handle = emit.unary(code, first.handle)
        return tensor(handle, first.type)

    return body


def _number(x: tensor, value: float) -> tensor:
    """Return a number in the dtype of a tensor."""
    return conversion.constant(value, x.dtype)


def _unsigned(x: tensor) -> tensor:
    return bitcast_to(x, get_int_dtype(x.dtype.primitive_bitwidth, False))


def _sign_bit(x: tensor) -> tensor:
    return _unsigned(x) >> (x.dtype.primitive_bitwidth - 1)


def _copysign(x: tensor, y: tensor) -> tensor:
    top = 1 << (x.dtype.primitive_bitwidth - 1)
    bits = (_unsigned(x) & (top - 1)) | (_unsigned(y) & top)
    return bitcast_to(bits, x.dtype)


def _pow(x: tensor, y: tensor) -> tensor:
    return _code(Code.POW)(x, cast_to(y, x.dtype))


def _exp10(x: tensor) -> tensor:
    return _code(Code.POW)(*broadcast_tensors(_number(x, 10.0), x))


def _round(x: tensor) -> tensor:
    """Round to the nearest integer, ties away from zero."""
    whole = mathematics.unary(Code.TRUNC, x)
    away = whole + _copysign(*broadcast_tensors(_number(x, 1.0), x))
    return where(mathematics.abs(x - whole) >= 0.5, away, whole)


def _is_nan(x: tensor) -> tensor:
    return not_equal(x, x)


def _is_infinite(x: tensor) -> tensor:
    return mathematics.abs(x) == float("inf")


def _is_finite(x: tensor) -> tensor:
    return mathematics.abs(x) < float("inf")


def _asinh(x: tensor) -> tensor:
    # log1p keeps the digits of small numbers, which log of about 1 would lose; the square of a large one overflows.
    size = mathematics.abs(x)
    square = size * size
    small = _code(Code.LOG1P)(size + square / (1 + mathematics.sqrt(square + 1)))
    large = mathematics.log(size) + math.log(2)
    return _copysign(where(size > 1e9, large, small), x)


def _acosh(x: tensor) -> tensor:
    above = x - 1
    small = _code(Code.LOG1P)(above + mathematics.sqrt(2 * above + above * above))
    return where(x > 1e9, mathematics.log(x) + math.log(2), small)


def _atanh(x: tensor) -> tensor:
    size = mathematics.abs(x)
    return _copysign(_code(Code.LOG1P)(2 * size / (1 - size)) * 0.5, x)


def _hypot(x: tensor, y: tensor) -> tensor:
    a, b = mathematics.abs(x), mathematics.abs(y)
    large, small = maximum(a, b), minimum(a, b)
    ratio = small / where(large == 0, 1.0, large)
    plain = large * mathematics.sqrt(1 + ratio * ratio)
    plain = where(_is_nan(x) | _is_nan(y), x + y, plain)
    return where(_is_infinite(x) | _is_infinite(y), float("inf"), plain)


def _fdim(x: tensor, y: tensor) -> tensor:
    return where(x <= y, 0.0, x - y)


def _popc(x: tensor) -> tensor:
    # Sums of neighbouring fields, twice as wide each time; the product adds up the bytes in the highest one.
    bits = _unsigned(x)
    width = x.dtype.primitive_bitwidth
    every = (1 << width) - 1
    bits = bits - ((bits >> 1) & (every // 3))
    bits = (bits & (every // 5)) + ((bits >> 2) & (every // 5))
    bits = (bits + (bits >> 4)) & (every // 17)
    return cast_to((bits * (every // 255)) >> (width - 8), int32)


def _clz(x: tensor) -> tensor:
    # Sets every bit below the highest set one; the zeros that are left are the leading ones.
    bits, shift = _unsigned(x), 1
    while shift < x.dtype.primitive_bitwidth:
        bits = bits | (bits >> shift)
        shift *= 2
    return _popc(~bits)


def _ffs(x: tensor) -> tensor:
    lowest = _unsigned(x) & (~_unsigned(x) + 1)
    return where(x == 0, 0, _popc(lowest - 1) + 1)


def _nextafter(x: tensor, y: tensor) -> tensor:
    # Floats of one sign are ordered as their bits are; the step from zero is the smallest subnormal.
    bits = _unsigned(x)
    top = 1 << (x.dtype.primitive_bitwidth - 1)
    grows = (x < y) == (x > 0)
    stepped = where(grows, bits + 1, bits - 1)
    stepped = where(x == 0, (_unsigned(y) & top) | 1, stepped)
    moved = where(x == y, y, bitcast_to(stepped, x.dtype))
    return where(_is_nan(x) | _is_nan(y), x + y, moved)


def _saturate(x: tensor) -> tensor:
    return minimum(maximum(x, 0.0), 1.0)


def _reciprocal(x: tensor) -> tensor:
    return 1.0 / x


def _to(code: Code | None, to: dtype) -> Callable[..., tensor]:
    return lambda x: cast_to(x if code is None else mathematics.unary(code, x), to)


def _bits_as(to: dtype) -> Callable[..., tensor]:
    return lambda x: bitcast_to(x, to)


def _then(body: Callable[..., tensor], to: dtype) -> Callable[..., tensor]:
    return lambda *operands: cast_to(body(*operands), to)


def _define_elementary() -> None:
    for name in (
        *("ceil", "floor", "trunc", "rint", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2"),
        *(
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "erf",
        ),
    ):
        _define(name, _F, _code(Code[name.upper()]), f"``{name}`` of each element.")
    _define("nearbyint", _F, _code(Code.RINT), "The nearest integer, ties to even.")
    _define("round", _F, _round, "The nearest integer, ties away from zero.")
    _define("llrint", _F, _to(Code.RINT, int64), "The nearest integer, ties to even, int64.")
    _define("llround", _F, _then(_round, int64), "The nearest integer, ties away, int64.")
    _define("atan2", _FF, _code(Code.ATAN2), "Angle of the point (y, x).")
    _define("fmod", _FF, _code(Code.REM), "Remainder with the sign of the first.")
    _define("hypot", _FF, _hypot, "Length of the vector.")
    _define("fdim", _FF, _fdim, "The difference, but at least 0.")
    _define("copysign", _FF, _copysign, "The first with the sign of the second.")
    _define("nextafter", _FF, _nextafter, "The next number toward the second.")
    _define("fma", _FFF, _code(Code.FMA), "``x * y + z`` with one rounding.")
    powers = [("fp32", "int32"), ("fp64", "int32"), *_FF]
    _define("pow", powers, _pow, "The first to the power of the second.")
    _define("exp10", _F, _exp10, "10 to the power of each element.")
    _define("asinh", _F, _asinh, "Inverse hyperbolic sine.")
    _define("acosh", _F, _acosh, "Inverse hyperbolic cosine.")
    _define("atanh", _F, _atanh, "Inverse hyperbolic tangent.")
    _define("isnan", _F, _is_nan, "1 where the element is NaN, int1.")
    _define("isinf", _F, _is_infinite, "1 where the element is infinite, int1.")
    _define("finitef", _S, _then(_is_finite, int1), "1 where the element is finite, int1.")
    _define(
        "isfinited", [("fp64",)], _then(_is_finite, int1), "1 where the element is finite, int1."
    )
    _define("signbit", _F, _then(_sign_bit, int32), "1 where the sign bit is set, int32.")
    _define("saturatef", _S, _saturate, "Between 0 and 1; NaN gives 0.")


def _define_fast_and_rounded() -> None:
    for name in ("sin", "cos", "tan", "log", "log2", "log10", "exp"):
        _define(f"fast_{name}f", _S, _code(Code[name.upper()]), f"``{name}``.")
    _define("fast_exp10f", _S, _exp10, "10 to the power of each element.")
    _define("fast_powf", _SS, _code(Code.POW), "The first to the power of the second.")
    _define("fast_dividef", _SS, _code(Code.DIV), "The quotient.")
    for name, code in (("add", Code.ADD), ("sub", Code.SUB), ("mul", Code.MUL), ("div", Code.DIV)):
        _define(f"{name}_rn", _FF, _code(code), f"``{name}``, rounded to nearest even.")
    _define("fma_rn", _FFF, _code(Code.FMA), "``x * y + z`` with one rounding.")
    _define("sqrt_rn", _F, _code(Code.SQRT), "Square root, rounded to nearest even.")
    _define("rsqrt_rn", _S, _code(Code.RSQRT), "One by the square root.")
    _define("rcp_rn", _F, _reciprocal, "One by the element, rounded to nearest even.")


def _define_integers() -> None:
    words: list[Signature] = [("int32",), ("int64",)]
    for name, body, summary in (
        ("popc", _popc, "Number of bits set"),
        ("clz", _clz, "Number of bits above the highest set one"),
        ("ffs", _ffs, "Position of the lowest set bit, counted from 1; 0 where there is none"),
    ):
        _define(name, words, body, f"{summary}, int32.")
    _define("abs", [*words, *_F], _code(Code.ABS), "Absolute value.")
    pairs: list[Signature] = [(n, n) for n in ("int32", "uint32", "int64", "uint64")]
    _define("mulhi", pairs, _code(Code.MULHI), "Upper half of the product.")


def _define_conversions() -> None:
    roundings = {"rn": Code.RINT, "rz": None, "rd": Code.FLOOR, "ru": Code.CEIL}
    floats = {"float": float32, "double": float64}
    integers = {"int": int32, "uint": uint32, "ll": int64, "ull": uint64}
    for source, from_ in floats.items():
        for target, to in integers.items():
            for suffix, code in roundings.items():
                name = f"{source}2{target}_{suffix}"
                _define(name, [(from_.name,)], _to(code, to), f"The integer, as {to}.")
    for source, from_ in integers.items():
        for target, to in floats.items():
            name = f"{source}2{target}_rn"
            _define(name, [(from_.name,)], _to(None, to), f"The nearest {to}.")
    _define("double2float_rn", [("fp64",)], _to(None, float32), "The nearest fp32.")
    for source, from_, target, to in (
        ("int", int32, "float", float32),
        ("float", float32, "int", int32),
        ("uint", uint32, "float", float32),
        ("float", float32, "uint", uint32),
        ("longlong", int64, "double", float64),
        ("double", float64, "longlong", int64),
    ):
        _define(f"{source}_as_{target}", [(from_.name,)], _bits_as(to), f"The bits as {to}.")


_define_elementary()
_define_fast_and_rounded()
_define_integers()
_define_conversions()
globals().update(_functions)
__all__ = sorted(_functions)  # noqa: PLE0605 - a list of names that only a call can tell


def _refused(name: str) -> Callable[..., tensor]:
    def function(*arguments: TensorLike) -> tensor:
        raise NotImplementedError(f"libdevice.{name} is not in emu yet")

    function.__name__ = function.__qualname__ = name
    return function


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return _refused(name)
    raise AttributeError(f"libdevice has no function {name!r}")
