"""Instructions of PTX that compute, against Python's integers and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language_harness import evaluate

import emu.triton.language as tl

RNG = np.random.default_rng(21)
X, Y, Z = (RNG.integers(0, 2**32, 64, dtype=np.uint32) for _ in range(3))
SMALL = RNG.integers(0, 40, 64, dtype=np.uint32)
FLOATS = RNG.standard_normal(64).astype(np.float32) * 4
OTHERS = RNG.standard_normal(64).astype(np.float32) * 4
DTYPES = {
    np.dtype(np.uint32): tl.uint32,
    np.dtype(np.float32): tl.float32,
    np.dtype(np.int32): tl.int32,
}


def run(text: str, *operands: Any, dtype: Any = None) -> Any:
    constraints = ",".join(["=r", *("r" for _ in operands)])
    result = dtype or DTYPES[operands[0].dtype]
    return evaluate(
        lambda *a: tl.inline_asm_elementwise(text, constraints, list(a), result, True, 1),
        *operands,
        native=True,
    )


def _signed(v: int) -> int:
    return v - 2**32 if v >= 2**31 else v


def _bfe(a: int, position: int, length: int) -> int:
    return a >> position & ((1 << length) - 1) if position < 64 else 0


def _bfe_signed(a: int, position: int, length: int) -> int:
    position, length = position & 255, length & 255
    if length == 0:
        return 0
    sign = a >> min(position + length - 1, 31) & 1
    field = 0
    for i in range(32):
        place = position + i
        bit = a >> place & 1 if i < length and place <= 31 else sign
        field |= bit << i
    return field


INTEGERS: dict[str, tuple[tuple[Any, ...], Callable[..., int]]] = {
    "add.u32 $0, $1, $2;": ((X, Y), lambda a, b: a + b),
    "sub.s32 $0, $1, $2;": ((X, Y), lambda a, b: a - b),
    "mul.lo.u32 $0, $1, $2;": ((X, Y), lambda a, b: a * b),
    "mul.hi.u32 $0, $1, $2;": ((X, Y), lambda a, b: a * b >> 32),
    "mul.hi.s32 $0, $1, $2;": ((X, Y), lambda a, b: _signed(a) * _signed(b) >> 32),
    "mul.wide.u16 $0, $1, $2;": ((X, Y), lambda a, b: (a & 0xFFFF) * (b & 0xFFFF)),
    "mad.lo.s32 $0, $1, $2, $3;": ((X, Y, Z), lambda a, b, c: a * b + c),
    "mad.hi.u32 $0, $1, $2, $3;": ((X, Y, Z), lambda a, b, c: (a * b >> 32) + c),
    "and.b32 $0, $1, $2;": ((X, Y), lambda a, b: a & b),
    "or.b32 $0, $1, 0b101;": ((X,), lambda a: a | 5),
    "not.b32 $0, $1;": ((X,), lambda a: ~a),
    "min.s32 $0, $1, $2;": ((X, Y), lambda a, b: min(_signed(a), _signed(b))),
    "max.u32 $0, $1, $2;": ((X, Y), max),
    "abs.s32 $0, $1;": ((X,), lambda a: abs(_signed(a))),
    "neg.s32 $0, $1;": ((X,), lambda a: -_signed(a)),
    "shl.b32 $0, $1, $2;": ((X, SMALL), lambda a, n: a << n),
    "shr.u32 $0, $1, $2;": ((X, SMALL), lambda a, n: a >> n),
    "shr.s32 $0, $1, $2;": ((X, SMALL), lambda a, n: _signed(a) >> n),
    "shf.l.wrap.b32 $0, $1, $2, $3;": (
        (X, Y, SMALL),
        lambda a, b, n: ((b << 32 | a) << (n & 31)) >> 32,
    ),
    "shf.r.clamp.b32 $0, $1, $2, $3;": ((X, Y, SMALL), lambda a, b, n: (b << 32 | a) >> min(n, 32)),
    "lop3.b32 $0, $1, $2, $3, 0xE8;": ((X, Y, Z), lambda a, b, c: a & b | b & c | a & c),
    "lop3.b32 $0, $1, $2, $3, 0x96;": ((X, Y, Z), lambda a, b, c: a ^ b ^ c),
    "bfe.u32 $0, $1, 5, 9;": ((X,), lambda a: _bfe(a, 5, 9)),
    "bfe.u32 $0, $1, $2, 8;": ((X, SMALL), lambda a, n: _bfe(a, n, 8)),
    "bfe.s32 $0, $1, $2, 8;": ((X, SMALL), lambda a, n: _bfe_signed(a, n, 8)),
    "bfi.b32 $0, $1, $2, 4, 8;": ((X, Y), lambda a, b: b & ~(255 << 4) | (a & 255) << 4),
    "popc.b32 $0, $1;": ((X,), lambda a: a.bit_count()),
    "clz.b32 $0, $1;": ((X,), lambda a: 32 - a.bit_length()),
    "bfind.u32 $0, $1;": ((X,), lambda a: a.bit_length() - 1),
    "brev.b32 $0, $1;": ((X,), lambda a: int(f"{a:032b}"[::-1], 2)),
    "sad.u32 $0, $1, $2, $3;": ((X, Y, Z), lambda a, b, c: abs(a - b) + c),
    "prmt.b32 $0, $1, $2, 0x0189;": (
        (X, Y),
        lambda a, b: (a & 255) << 24 | (a >> 8 & 255) << 16
        | (255 if a >> 7 & 1 else 0) << 8 | (255 if a >> 15 & 1 else 0),
    ),
    "prmt.b32.rc16 $0, $1, $2, 1;": ((X, Y), lambda a, b: (a >> 16) * 0x10001),
    "{.reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p;}": (
        (X, Y),
        lambda a, b: min(_signed(a), _signed(b)),
    ),
    "{.reg .pred p, q; setp.hs.u32 p|q, $1, $2; @q mov.b32 $0, $1; @!q mov.b32 $0, $2;}": (
        (X, Y),
        min,
    ),
    "{.reg .b16 l, h; mov.b32 {l, h}, $1; mov.b32 $0, {h, l};}": (
        (X,),
        lambda a: a >> 16 | a << 16,
    ),
    "cvt.s32.s8 $0, $1;": ((X,), lambda a: (a & 255) - 256 * (a >> 7 & 1)),
    "cvt.sat.u8.s32 $0, $1;": ((X,), lambda a: min(max(_signed(a), 0), 255)),
    "set.gt.u32.u32 $0, $1, $2;": ((X, Y), lambda a, b: -1 if a > b else 0),
}  # fmt: skip


@pytest.mark.parametrize("text", list(INTEGERS))
def test_instructions_of_integers(text: str) -> None:
    operands, function = INTEGERS[text]
    got = run(text, *operands)
    wanted = [function(*map(int, lane)) % 2**32 for lane in zip(*operands, strict=True)]
    np.testing.assert_array_equal(got, np.array(wanted, np.uint32))


SINGLES: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "add.rn.f32 $0, $1, $2;": ((FLOATS, OTHERS), np.add),
    "mul.ftz.f32 $0, $1, $2;": ((FLOATS, OTHERS), np.multiply),
    "div.full.f32 $0, $1, $2;": ((FLOATS, OTHERS), np.divide),
    "fma.rn.f32 $0, $1, $2, 0f3F800000;": ((FLOATS, OTHERS), lambda a, b: a * b + 1),
    "add.f32 $0, $1, 1.5;": ((FLOATS,), lambda a: a + np.float32(1.5)),
    "ex2.approx.ftz.f32 $0, $1;": ((FLOATS,), np.exp2),
    "lg2.approx.f32 $0, $1;": ((np.abs(FLOATS),), np.log2),
    "rcp.approx.ftz.f32 $0, $1;": ((FLOATS,), np.reciprocal),
    "rsqrt.approx.f32 $0, $1;": ((np.abs(FLOATS),), lambda a: 1 / np.sqrt(a)),
    "sqrt.approx.f32 $0, $1;": ((np.abs(FLOATS),), np.sqrt),
    "tanh.approx.f32 $0, $1;": ((FLOATS,), np.tanh),
    "sin.approx.f32 $0, $1;": ((FLOATS,), np.sin),
    "neg.ftz.f32 $0, $1;": ((FLOATS,), np.negative),
    "abs.f32 $0, $1;": ((FLOATS,), np.abs),
    "copysign.f32 $0, $1, $2;": ((FLOATS, OTHERS), lambda a, b: np.copysign(b, a)),
    "add.sat.f32 $0, $1, $2;": ((FLOATS, OTHERS), lambda a, b: np.clip(a + b, 0, 1)),
    "cvt.rpi.f32.f32 $0, $1;": ((FLOATS,), np.ceil),
    "{.reg .f64 d; cvt.f64.f32 d, $1; mul.f64 d, d, d; cvt.rn.f32.f64 $0, d;}": (
        (FLOATS,),
        np.square,
    ),
    "{.reg .f16 h; cvt.rn.f16.f32 h, $1; cvt.f32.f16 $0, h;}": (
        (FLOATS,),
        lambda a: a.astype(np.float16),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", list(SINGLES))
def test_instructions_of_floats(text: str) -> None:
    operands, function = SINGLES[text]
    wanted = function(*operands).astype(np.float32)
    np.testing.assert_allclose(
        run(text, *operands), wanted, rtol=4e-7, atol=1e-6 if "fma" in text else 0
    )


def test_floats_become_integers_and_back() -> None:
    x = np.array([1.5, 2.5, -1.5, 1e20, -1e20, np.nan, 0.49, 300], np.float32)
    got = run("cvt.rni.s32.f32 $0, $1;", x, dtype=tl.int32)
    np.testing.assert_array_equal(got, [2, 2, -2, 2**31 - 1, -(2**31), 0, 0, 300])
    got = run("cvt.rzi.u8.f32 $0, $1;", x, dtype=tl.int32)
    np.testing.assert_array_equal(got, [1, 2, 0, 255, 0, 0, 0, 255])
    wanted = X.astype(np.float64)
    for mode, direction in (("rm", -1), ("rp", 1)):
        rounded = run(f"cvt.{mode}.f32.u32 $0, $1;", X, dtype=tl.float32).astype(np.float64)
        assert ((rounded - wanted) * direction >= 0).all()
        np.testing.assert_allclose(rounded, wanted, rtol=2.0**-23)


def test_subnormal_numbers_are_flushed_where_the_text_says_so() -> None:
    x = np.array([1e-40, -1e-40, 1.0, 2e-38], np.float32)
    np.testing.assert_array_equal(run("add.f32 $0, $1, 0f00000000;", x), x)
    flushed = run("mul.ftz.f32 $0, $1, 0f3F800000;", x)
    np.testing.assert_array_equal(flushed, [0, -0.0, 1, x[3]])
    assert np.signbit(flushed[1])


def test_comparisons_with_nan() -> None:
    x, y = np.array([1, np.nan, 2], np.float32), np.array([1, 1, np.nan], np.float32)
    for name, wanted in (("eq", [1, 0, 0]), ("ne", [0, 0, 0]), ("neu", [0, 1, 1]), ("equ", [1, 1, 1]),
                         ("num", [1, 0, 0]), ("nan", [0, 1, 1]), ("geu", [1, 1, 1]), ("ge", [1, 0, 0])):  # fmt: skip
        text = f"{{.reg .pred p; setp.{name}.f32 p, $1, $2; selp.u32 $0, 1, 0, p;}}"
        got = run(
            text,
            np.append(x, 0).astype(np.float32),
            np.append(y, 0).astype(np.float32),
            dtype=tl.int32,
        )
        np.testing.assert_array_equal(got[:3], wanted)
