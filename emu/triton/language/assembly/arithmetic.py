"""Arithmetic and bit instructions of PTX on tensors of one dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile.ops import Code
from emu.triton.language import mathematics
from emu.triton.language.arithmetic import PropagateNan, invert, maximum, minimum, minus, where
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.extra import directed, integers
from emu.triton.language.extra.bits import apply, copysign, is_nan, like, unsigned
from emu.triton.language.types import float32, float64, get_int_dtype, int32, int64, uint32, uint64
from emu.triton.language.values import tensor

Suffixes = Sequence[str]
Body = Callable[..., tensor]

_DIRECTIONS = {"rz": "rz", "rm": "rd", "rp": "ru"}


def mode_of(suffixes: Suffixes) -> str:
    """Return the rounding mode that suffixes name, by default to nearest."""
    return next((_DIRECTIONS[s] for s in suffixes if s in _DIRECTIONS), "rn")


def _is_wide_float(x: tensor) -> bool:
    return x.dtype in (float32, float64)


def flushed(x: tensor) -> tensor:
    """Replace subnormal numbers of fp32 by zeros of their sign."""
    return where(mathematics.abs(x) < 2.0**-126, copysign(like(x, 0.0), x), x)


def finished(x: tensor, suffixes: Suffixes) -> tensor:
    """Apply what the suffixes ask of a float result."""
    if not x.dtype.is_floating():
        return x
    kind = x.dtype
    if "ftz" in suffixes and kind == float32:
        x = flushed(x)
    if "sat" in suffixes:
        x = minimum(maximum(x, 0.0), 1.0)
    if "relu" in suffixes:
        x = where(is_nan(x), x, maximum(x, 0.0))
    return cast_to(x, kind)


def wide_product(a: tensor, b: tensor) -> tensor:
    """Return the product of integers in twice the width."""
    to = get_int_dtype(2 * a.dtype.primitive_bitwidth, a.dtype.is_int_signed())
    return cast_to(a, to) * cast_to(b, to)


def _saturated(wide: tensor, kind: tensor) -> tensor:
    low, high = kind.dtype.get_int_min_value(), kind.dtype.get_int_max_value()
    return cast_to(minimum(maximum(wide, low), high), kind.dtype)


def _add(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    if _is_wide_float(a):
        return directed.add(mode_of(suffixes))(a, b)
    if "sat" in suffixes and a.dtype.is_int():
        return _saturated(cast_to(a, int64) + cast_to(b, int64), a)
    return a + b


def _sub(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    if _is_wide_float(a):
        return directed.sub(mode_of(suffixes))(a, b)
    if "sat" in suffixes and a.dtype.is_int():
        return _saturated(cast_to(a, int64) - cast_to(b, int64), a)
    return a - b


def _mul(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    if a.dtype.is_floating():
        return directed.mul(mode_of(suffixes))(a, b) if _is_wide_float(a) else a * b
    if "wide" in suffixes:
        return wide_product(a, b)
    if "hi" not in suffixes:
        return a * b
    if a.dtype.primitive_bitwidth < 32:
        return cast_to(wide_product(a, b) >> a.dtype.primitive_bitwidth, a.dtype)
    return apply(Code.MULHI, a, b)


def _fma(suffixes: Suffixes, a: tensor, b: tensor, c: tensor) -> tensor:
    if _is_wide_float(a):
        return directed.fused(mode_of(suffixes))(a, b, c)
    return apply(Code.FMA, a, b, c)


def _mad(suffixes: Suffixes, a: tensor, b: tensor, c: tensor) -> tensor:
    if a.dtype.is_floating():
        return _fma(suffixes, a, b, c)
    return _mul(suffixes, a, b) + c


def _mul24(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    low = a << 8 >> 8, b << 8 >> 8
    if "hi" not in suffixes:
        return low[0] * low[1]
    return cast_to(wide_product(*low) >> 16, a.dtype)


def _div(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    return directed.div(mode_of(suffixes))(a, b) if _is_wide_float(a) else apply(Code.DIV, a, b)


def _extremum(code: Code) -> Body:
    def body(suffixes: Suffixes, *operands: tensor) -> tensor:
        choose = minimum if code is Code.MIN else maximum
        nan = PropagateNan.ALL if "NaN" in suffixes else PropagateNan.NONE
        kind = operands[0].dtype
        if "xorsign" in suffixes:
            sign = bitcast_to(unsigned(operands[0]) ^ unsigned(operands[1]), kind)
            sizes = [mathematics.abs(o) for o in operands]
            return copysign(choose(sizes[0], sizes[1], propagate_nan=nan), sign)
        result = operands[0]
        for other in operands[1:]:
            result = choose(result, other, propagate_nan=nan)
        return result

    return body


def _neg(suffixes: Suffixes, a: tensor) -> tensor:
    return minus(a)


def _abs(suffixes: Suffixes, a: tensor) -> tensor:
    return mathematics.abs(a)


def _of(code: Code) -> Body:
    def body(suffixes: Suffixes, a: tensor) -> tensor:
        narrow = a.dtype.primitive_bitwidth < 32
        result = mathematics.unary(code, cast_to(a, float32) if narrow else a)
        return cast_to(result, a.dtype)

    return body


def _sqrt(suffixes: Suffixes, a: tensor) -> tensor:
    return directed.sqrt(mode_of(suffixes))(a)


def _rcp(suffixes: Suffixes, a: tensor) -> tensor:
    return directed.rcp(mode_of(suffixes))(a)


def _copysign(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    return copysign(b, a)


# ---- bits


def _shift(a: tensor, count: tensor, left: bool) -> tensor:
    """Shift by a count of uint32; one of the width or more leaves nothing but signs."""
    width = a.dtype.primitive_bitwidth
    limit = (
        minimum(count, width) if left or not a.dtype.is_int_signed() else minimum(count, width - 1)
    )
    by = cast_to(limit, a.dtype)
    if left or not a.dtype.is_int_signed():
        shifted = apply(Code.SHL if left else Code.SHR, a, by)
        return where(count >= width, like(a, 0), shifted)
    return apply(Code.SHR, a, by)


def _shl(suffixes: Suffixes, a: tensor, count: tensor) -> tensor:
    return _shift(a, count, left=True)


def _shr(suffixes: Suffixes, a: tensor, count: tensor) -> tensor:
    return _shift(a, count, left=False)


def _shf(suffixes: Suffixes, a: tensor, b: tensor, count: tensor) -> tensor:
    by = count & 31 if "wrap" in suffixes else minimum(count, 32)
    both = (cast_to(b, uint64) << 32) | cast_to(a, uint64)
    if "l" in suffixes:
        return cast_to(_shift(both, by, left=True) >> 32, uint32)
    return cast_to(_shift(both, by, left=False), uint32)


def _and(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    return a & b


def _or(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    return a | b


def _xor(suffixes: Suffixes, a: tensor, b: tensor) -> tensor:
    return a ^ b


def _not(suffixes: Suffixes, a: tensor) -> tensor:
    return invert(a)


def _cnot(suffixes: Suffixes, a: tensor) -> tensor:
    return cast_to(a == 0, a.dtype)


def lop3(a: tensor, b: tensor, c: tensor, table: int) -> tensor:
    """Return the function of three bits whose values a table has, for each bit."""
    result = like(a, 0)
    for row in range(8):
        if table >> row & 1:
            terms = [v if row >> place & 1 else invert(v) for place, v in ((2, a), (1, b), (0, c))]
            result = result | (terms[0] & terms[1] & terms[2])
    return result


_MODES_OF_BYTES = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}
"""Selected bytes, the highest first, of each mode by the selector's lower two bits."""


def _prmt(suffixes: Suffixes, a: tensor, b: tensor, selector: tensor) -> tensor:
    mode = next((s for s in suffixes if s in _MODES_OF_BYTES), None)
    if mode is None:
        return integers.bytes_at(a, b, selector)
    chosen = like(a, 0)
    for value, places in enumerate(_MODES_OF_BYTES[mode]):
        nibbles = sum(place << 4 * (3 - at) for at, place in enumerate(places))
        chosen = where((selector & 3) == value, nibbles, chosen)
    return integers.bytes_at(a, b, bitcast_to(chosen, uint32))


def _bfe(suffixes: Suffixes, a: tensor, position: tensor, length: tensor) -> tensor:
    width = a.dtype.primitive_bitwidth
    first, count = position & 0xFF, minimum(length & 0xFF, width)
    moved = _shift(a, first, left=False)
    if a.dtype.is_int_signed():
        # To the top and back, so that the field's highest bit fills what is above it.
        field = _shift(_shift(moved, width - count, left=True), width - count, left=False)
        field = where(first + count > width, moved, field)
    else:
        ones = invert(_shift(invert(like(a, 0)), count, left=True))
        field = moved & ones
    return cast_to(where(count == 0, like(a, 0), field), a.dtype)


def _bfi(suffixes: Suffixes, a: tensor, b: tensor, position: tensor, length: tensor) -> tensor:
    width = a.dtype.primitive_bitwidth
    first, count = position & 0xFF, minimum(length & 0xFF, width)
    ones = invert(_shift(invert(like(a, 0)), count, left=True))
    mask = _shift(ones, first, left=True)
    return (b & invert(mask)) | (_shift(a, first, left=True) & mask)


def _bfind(suffixes: Suffixes, a: tensor) -> tensor:
    bits = unsigned(where(a < 0, invert(a), a)) if a.dtype.is_int_signed() else a
    width = a.dtype.primitive_bitwidth
    leading = bitcast_to(integers.clz(bits), uint32)
    place = leading if "shiftamt" in suffixes else (width - 1) - bitcast_to(leading, int32)
    return where(bits == 0, 0xFFFFFFFF, bitcast_to(place, uint32))


def _sad(suffixes: Suffixes, a: tensor, b: tensor, c: tensor) -> tensor:
    return bitcast_to(integers.sad(a, b, c), a.dtype)


def _counted(function: Callable[[tensor], tensor]) -> Body:
    return lambda suffixes, a: bitcast_to(function(a), uint32)


def _brev(suffixes: Suffixes, a: tensor) -> tensor:
    return integers.brev(a)


BODIES: dict[str, Body] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "mad": _mad,
    "fma": _fma,
    "mul24": _mul24,
    "div": _div,
    "rem": lambda suffixes, a, b: apply(Code.REM, a, b),
    "min": _extremum(Code.MIN),
    "max": _extremum(Code.MAX),
    "neg": _neg,
    "abs": _abs,
    "sqrt": _sqrt,
    "rcp": _rcp,
    "rsqrt": _of(Code.RSQRT),
    "ex2": _of(Code.EXP2),
    "lg2": _of(Code.LOG2),
    "sin": _of(Code.SIN),
    "cos": _of(Code.COS),
    "tanh": _of(Code.TANH),
    "copysign": _copysign,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "cnot": _cnot,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
    "prmt": _prmt,
    "bfe": _bfe,
    "bfi": _bfi,
    "bfind": _bfind,
    "sad": _sad,
    "popc": _counted(integers.popc),
    "clz": _counted(integers.clz),
    "brev": _brev,
}
"""What each instruction computes: its suffixes, then its operands."""

COUNTS = {
    "shl": (1,),
    "shr": (1,),
    "shf": (2,),
    "prmt": (2,),
    "bfe": (1, 2),
    "bfi": (2, 3),
}
"""Operands that are uint32 whatever the type of the instruction is, by their places."""
