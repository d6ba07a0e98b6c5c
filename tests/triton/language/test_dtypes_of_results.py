"""Which dtype each function gives for each dtype of its argument, and in which dtype it computes.

The table says what Triton 3.9.0's own compiler gives. The second half proves from values where each
operation rounds, with inputs for which the sums of narrow floats and of fp32 differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import DTYPES, Scalar, emit, evaluate, value

import emu.triton.language as tl
from emu.triton.language.extra import libdevice

Array = np.ndarray[Any, Any]
LETTERS = dict(zip("bcsilCSIL45hnfd", DTYPES, strict=True))

# A column a dtype: int1, int8 to int64, uint8 to uint64, fp8e4nv, fp8e5, fp16, bf16, fp32, fp64, each named
# by the letter that stands first in the columns of tl.abs; - is refused. Two letters: two results.
# x is a tensor of 16 elements, s a scalar, xp its pointer and o = tl.arange(0, 16).
TABLE = """
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.abs(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.exp(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.exp2(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.log(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.log2(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.sin(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.cos(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.sqrt(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  -  tl.sqrt_rn(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.rsqrt(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.floor(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.ceil(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.erf(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  tl.sigmoid(x)
-  -  -  -  -  -  -  -  -  f  f  f  f  f  d  tl.softmax(x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  -x
b  c  s  i  l  C  S  I  L  -  -  -  -  -  -  ~x
I  i  i  i  l  I  I  I  L  4  5  h  n  f  d  tl.sum(x)
f  f  f  f  f  f  f  f  f  f  f  f  f  f  f  tl.sum(x, dtype=tl.float32)
d  d  d  d  d  d  d  d  d  d  d  d  d  d  d  tl.sum(x, dtype=tl.float64)
i  i  i  i  l  i  i  I  L  f  f  f  f  f  d  tl.max(x, 0)
bi ci si ii li Ci Si Ii Li 4i 5i hi ni fi di tl.max(x, 0, return_indices=True)
bi ci si ii li Ci Si Ii Li 4i 5i hi ni fi di tl.min(x, 0, return_indices=True)
i  i  i  i  i  i  i  i  i  i  i  i  i  i  i  tl.argmax(x, 0)
i  i  i  i  i  i  i  i  i  i  i  i  i  i  i  tl.argmin(x, 0)
b  c  s  i  l  C  S  I  L  -  -  -  -  -  -  tl.xor_sum(x)
b  c  s  i  l  C  S  I  L  -  -  -  -  -  -  tl.reduce_or(x, 0)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.reduce(x, 0, added)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.reduce(x, 0, larger)
bb cc ss ii ll CC SS II LL 44 55 hh nn ff dd tl.reduce((x, x), 0, pairs)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.associative_scan(x, 0, added)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.associative_scan(x, 0, larger)
I  i  i  i  l  I  I  I  L  4  5  h  n  f  d  tl.cumsum(x)
I  i  i  i  l  I  I  I  L  4  5  h  n  f  d  tl.cumsum(x, 0, reverse=True)
f  f  f  f  f  f  f  f  f  f  f  f  f  f  f  tl.cumsum(x, dtype=tl.float32)
I  i  i  i  l  I  I  I  L  4  5  h  n  f  d  tl.cumprod(x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.sort(x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.sort(x, descending=True)
i  i  i  i  l  i  i  I  L  f  f  f  f  f  d  tl.topk(x, 4)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.topk(x, 16)
-  -  -  i  -  -  -  i  -  -  -  -  -  -  -  tl.histogram(x, 16)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.flip(x)
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  x + 1
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  x + 1.5
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  1.5 + x
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  x + True
i  -  s  i  l  -  S  I  L  4  5  h  n  f  d  x + 300
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  x * 2
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  x * 2.5
f  f  f  f  f  f  f  f  f  f  f  f  f  f  d  1.5 / x
-  f  f  f  f  f  f  f  f  f  f  f  f  f  d  x / 2
-  f  f  f  f  f  f  f  f  f  f  f  f  f  d  2 / x
-  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x // 2
-  -  -  -  -  -  -  -  -  -  -  -  -  -  -  x // 2.0
-  c  s  i  l  C  S  I  L  f  f  f  f  f  d  x % 2
f  f  f  f  f  f  f  f  f  f  f  f  f  f  d  x % 2.0
-  c  s  i  l  C  S  I  L  f  f  f  f  f  d  7 % x
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x << 1
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  1 << x
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x >> 1
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x & 1
b  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x | True
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  x ^ 1
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.maximum(x, 0)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.maximum(x, 0.0)
d  d  d  d  d  d  d  d  d  4  5  h  n  f  d  tl.minimum(x, 1e300)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.clamp(x, 0, 1)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.clamp(x, 0.0, 1.0)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.clamp(x, x, 1.0)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.clamp(x, 0, 1.5)
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.where(x > 0, x, 0)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.where(x > 0, x, 0.5)
i  i  i  i  i  i  i  i  i  i  i  i  i  i  i  tl.where(x != 0, 1, 0)
f  f  f  f  f  f  f  f  f  -  -  f  f  f  f  tl.where(x, 1.0, 0)
-  -  -  -  -  -  -  -  -  4  5  h  n  f  d  tl.fma(x, x, 1)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.fma(x, x, 1.0)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.fma(x, 2.0, x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  -  tl.div_rn(x, 2.0)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  -  tl.div_rn(x, x)
f  f  f  f  f  f  f  f  f  f  f  f  f  f  d  tl.fdiv(x, 2.0)
-  -  -  -  -  -  -  -  -  f  f  f  f  f  d  tl.fdiv(x, 2)
-  -  -  -  -  -  -  -  -  f  f  f  f  f  -  tl.fdiv(x, x, approx=True)
-  -  -  i  l  -  -  I  L  -  -  -  -  -  -  tl.umulhi(x, 3)
i  c  s  i  l  C  S  I  L  -  -  -  -  -  -  tl.cdiv(x, 2)
b  b  b  b  b  b  b  b  b  b  b  b  b  b  b  x == 1
b  b  b  b  b  b  b  b  b  b  b  b  b  b  b  x < 1.5
b  b  b  b  b  b  b  b  b  b  b  b  b  b  b  x != x
f  f  f  f  f  f  f  f  f  -  -  f  f  f  -  tl.rand(0, x)
f  f  f  f  f  f  f  f  f  -  -  f  f  f  -  tl.randn(0, x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.zeros_like(x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.full((16,), 1, x.dtype)
b  -  -  -  -  -  -  -  -  4  5  h  n  f  d  tl.full((16,), 1.5, x.dtype)
-  -  -  i  l  -  -  I  L  -  -  h  n  f  d  tl.atomic_add(xp + o, x)
-  -  -  i  l  -  -  I  L  -  -  -  -  f  d  tl.atomic_max(xp + o, x)
-  -  -  i  l  -  -  I  L  -  -  -  -  f  d  tl.atomic_min(xp + o, x)
-  -  -  i  l  -  -  I  L  -  -  -  -  f  d  tl.atomic_xchg(xp + o, x)
-  -  s  i  l  -  S  I  L  -  -  h  n  f  d  tl.atomic_cas(xp + o, x, x)
-  -  -  i  l  -  -  I  L  -  -  h  n  f  d  tl.atomic_add(xp, 1)
-  -  -  i  l  -  -  I  L  -  -  h  n  f  d  tl.atomic_add(xp, 1.5)
-  -  -  i  l  -  -  I  L  -  -  -  -  f  d  tl.atomic_max(xp, 1)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.atomic_load(xp)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.join(x, x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.interleave(x, x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.cat(x, x, can_reorder=True)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.cat(x, x)
b  b  b  b  b  b  b  b  b  -  -  b  b  b  b  x.to(tl.int1)
c  c  c  c  c  c  c  c  c  -  -  c  c  c  c  x.to(tl.int8)
i  i  i  i  i  i  i  i  i  -  -  i  i  i  i  x.to(tl.int32)
h  h  h  h  h  h  h  h  h  h  h  h  h  h  h  x.to(tl.float16)
n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  x.to(tl.bfloat16)
-  -  -  -  -  -  -  -  -  5  5  5  5  5  5  x.to(tl.float8e5)
-  -  -  -  -  -  -  -  -  4  4  4  4  4  4  x.to(tl.float8e4nv)
f  f  f  f  f  f  f  f  f  f  f  f  f  f  f  x.to(tl.float32)
-  -  -  -  -  -  -  -  -  -  -  -  n  n  n  x.to(tl.bfloat16, fp_downcast_rounding="rtz")
-  -  -  -  -  -  -  -  -  -  5  5  5  5  5  x.to(tl.float8e5, fp_downcast_rounding="rtz")
-  -  s  -  -  -  s  -  -  -  -  s  s  -  -  x.to(tl.int16, bitcast=True)
-  c  -  -  -  c  -  -  -  c  c  -  -  -  -  x.to(tl.int8, bitcast=True)
-  -  h  -  -  -  h  -  -  -  -  h  h  -  -  x.to(tl.float16, bitcast=True)
-  -  -  i  -  -  -  i  -  -  -  -  -  i  -  x.to(tl.int32, bitcast=True)
i  c  s  i  l  C  S  I  L  4  5  h  n  f  d  s + 1
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  s + x
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  s * 1.5
-  f  f  f  f  f  f  f  f  f  f  f  f  f  d  s / 2
-  c  s  i  l  C  S  I  L  -  -  -  -  -  -  s // 2
-  c  s  i  l  C  S  I  L  f  f  f  f  f  d  s % 2
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  -s
f  f  f  f  f  f  f  f  f  f  f  f  f  f  d  x + s.to(tl.float32)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.maximum(s, x)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.where(s > 0, s, x)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.where(s != 0, x, 0.25)
b  c  s  i  l  C  S  I  L  -  -  -  -  -  -  tl.gather(x, x, 0)
b  -  -  -  b  -  -  b  b  b  b  b  b  b  b  x >= 2147483648
I  -  -  -  l  -  -  I  L  4  5  h  n  f  d  x + 2147483648
l  -  -  -  l  -  -  -  L  -  -  -  -  -  -  x & 4294967296
i  c  s  i  l  -  -  -  -  4  5  h  n  f  d  x + (-1)
ii ii ii ii ll -  -  -  -  -  -  -  -  -  -  tl.swizzle2d(x, x, 16, 16, 4)
I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  tl.sum(x > 0)
i  i  i  i  i  i  i  i  i  i  i  i  i  i  i  tl.max(x > 0)
I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  tl.cumsum(x > 0)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.reduce(x, None, added)
b  c  s  i  l  C  S  I  L  -  -  h  n  f  d  tl.cast(3, x.dtype)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.cast(0.3, x.dtype)
f  f  f  f  f  f  f  f  f  4  5  h  n  f  d  tl.sub(x, 1.5)
b  c  s  i  l  C  S  I  L  -  -  h  n  f  d  tl.load(xp + o, mask=o < 3, other=1)
b  c  s  i  l  C  S  I  L  4  5  h  n  f  d  tl.load(xp + o, mask=o < 3, other=1.5)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.exp(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.pow(x, x)
-  -  -  i  l  -  -  -  -  -  -  -  -  f  d  libdevice.abs(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.floor(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  b  b  libdevice.isnan(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.tanh(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.rint(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.fma(x, x, x)
-  -  -  i  i  -  -  -  -  -  -  -  -  -  -  libdevice.ffs(x)
-  -  -  -  -  -  -  -  -  -  -  -  -  f  d  libdevice.div_rn(x, x)
"""
ROWS = [line.split(maxsplit=len(DTYPES)) for line in TABLE.strip().splitlines()]


def added(a: Any, b: Any) -> Any:
    return a + b


def larger(a: Any, b: Any) -> Any:
    return tl.maximum(a, b)


def pairs(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a + c, tl.minimum(b, d)


def _given(expression: str, name: str) -> str:
    """The letters of what an expression gives for an argument of a dtype, or ``-``."""

    def program(x: Any, s: Any, xp: Any) -> Any:
        names = {"added": added, "larger": larger, "pairs": pairs, "libdevice": libdevice}
        return eval(
            expression, {"tl": tl, "x": x, "s": s, "xp": xp, "o": tl.arange(0, 16), **names}
        )

    letters = {name: letter for letter, name in LETTERS.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of shifts by more than the width of int1
            result, _ = emit(program, value(name, (16,)), value(name), value(f"*{name}"))
    except (TypeError, ValueError):
        return "-"
    results = result if isinstance(result, tl.tuple | tuple) else [result]
    return "".join(letters[r.dtype.name] for r in results)


@pytest.mark.parametrize("row", ROWS, ids=[row[-1] for row in ROWS])
def test_dtypes_of_results_are_those_of_the_table(row: list[str]) -> None:
    *wanted, expression = row
    assert [_given(expression, name) for name in DTYPES] == wanted


SIGNS = [("int8", "uint8"), ("uint16", "int16"), ("int32", "uint32"), ("uint64", "int64")]


@pytest.mark.parametrize(("a", "b"), SIGNS)
def test_what_is_put_together_has_the_signedness_of_the_first(a: str, b: str) -> None:
    for function in (tl.join, tl.interleave, tl.cat):
        assert emit(function, value(a, (4,)), value(b, (4,)))[0].dtype.name == a
        with pytest.raises(TypeError, match="one dtype"):
            emit(function, value(a, (4,)), value("fp32", (4,)))


def test_what_a_compare_and_swap_gives_has_the_signedness_of_the_value() -> None:
    for pointer, given in (("int32", "uint32"), ("uint64", "int64"), ("uint16", "uint16")):
        new = value(given, (4,))
        result, _ = emit(tl.atomic_cas, value(f"*{pointer}", (4,)), new, new)
        assert result.dtype.name == given


def test_correctly_rounded_division_takes_tensors_of_fp32_only() -> None:
    for other in ("int32", "bf16", "fp64"):
        for pair in ((value(other, (4,)), 2.0), (value("fp32", (4,)), value(other, (4,)))):
            with pytest.raises(ValueError, match=f"div_rn needs operands of float32, .*{other}"):
                emit(tl.div_rn, *pair)


# ---- where is rounded

BF16, F16, F32 = (np.dtype(d) for d in (ml_dtypes.bfloat16, np.float16, np.float32))
NARROW = {"fp16": F16, "bf16": BF16}
BIG = {"fp16": 2048.0, "bf16": 256.0}
"""What 1 can be added to without any effect."""

FACTOR = {"fp16": 1 + 2.0**-10, "bf16": 1 + 2.0**-7}
"""The smallest number above 1: its square is rounded."""


def _chain(combine: Callable[[Any, Any], Any], x: Array, dtype: Any) -> Array:
    """Combine with each step rounded to a dtype."""
    out = [x.astype(dtype)[0]]
    for element in x.astype(dtype)[1:]:
        out.append(dtype.type(combine(out[-1], element)))
    return np.array(out, dtype)


def _inputs(name: str) -> tuple[Array, Array]:
    """Four numbers whose sums, and four whose products, do not depend on the order in a narrow dtype."""
    terms = np.array([BIG[name], 1, -BIG[name], 0], NARROW[name])
    factors = np.array([FACTOR[name], FACTOR[name], 0.5, 1], NARROW[name])
    return terms, factors


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", list(NARROW))
def test_sums_and_products_of_narrow_floats_round_at_each_step(name: str, native: bool) -> None:
    terms, factors = _inputs(name)
    narrow = NARROW[name]
    plus = _chain(lambda a, b: a + b, terms, narrow)
    times = _chain(lambda a, b: a * b, factors, narrow)
    sums, products = plus, times
    if name == "bf16":  # cumsum and cumprod round once, at the end
        sums = _chain(lambda a, b: a + b, terms, F32).astype(narrow)
        products = _chain(lambda a, b: a * b, factors, F32).astype(narrow)
    cases: list[tuple[Callable[[Any], Any], Array, Array]] = [
        (lambda x: tl.cumsum(x, 0), terms, sums),
        (lambda x: tl.cumprod(x, 0), factors, products),
        (lambda x: tl.associative_scan(x, 0, added), terms, plus),
        # The compiler adds the first and the third, the second and the fourth, then both sums.
        (lambda x: tl.sum(x, 0), terms[[0, 3, 1, 2]], plus[-1]),
        (lambda x: tl.reduce(x, 0, added), terms[[0, 3, 1, 2]], plus[-1]),
    ]
    for function, x, wanted in cases:
        got = evaluate(function, x, native=native)
        assert got.dtype == narrow
        # The third of a scan depends on the order, which is the backend's choice.
        places = [0, 1, 3] if got.ndim else 0
        np.testing.assert_array_equal(got.ravel()[places], wanted.ravel()[places])
    wide = _chain(lambda a, b: a + b, terms, F32)
    assert (plus[-1], wide[-1]) == (0, 1)
    assert times[1] != _chain(lambda a, b: a * b, factors, F32)[1]


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", list(NARROW))
def test_a_dtype_that_is_asked_for_is_what_is_summed_in(name: str, native: bool) -> None:
    terms, factors = _inputs(name)
    for function, x, combine in (
        (tl.cumsum, terms, lambda a, b: a + b),
        (tl.cumprod, factors, lambda a, b: a * b),
    ):
        got = evaluate(lambda t, f=function: f(t, 0, dtype=tl.float32), x, native=native)
        np.testing.assert_array_equal(got, _chain(combine, x, F32))
    assert evaluate(lambda t: tl.sum(t, dtype=tl.float32), terms, native=native) == 1


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", list(NARROW))
def test_numbers_are_rounded_to_the_dtype_of_the_tensor(name: str, native: bool) -> None:
    x, tenth = np.zeros(2, NARROW[name]), NARROW[name].type(0.1)
    cases: list[Callable[[Any], Any]] = [
        lambda t: tl.maximum(t, 0.1),
        lambda t: tl.minimum(t + 1, 0.1),
        lambda t: tl.clamp(t, 0.1, 1.0),
        lambda t: tl.where(t > 0, t, 0.1),
        lambda t: t + 0.1,
        lambda t: tl.fma(t, t, 0.1),
    ]
    for function in cases:
        got = evaluate(function, x, native=native)
        assert got.dtype == NARROW[name]
        assert list(got) == [tenth, tenth]
    assert float(tenth) != F32.type(0.1)


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
@pytest.mark.parametrize("name", list(NARROW))
def test_arithmetic_of_narrow_floats_rounds_and_division_is_in_fp32(
    name: str, native: bool
) -> None:
    narrow, big = NARROW[name], BIG[name]
    x, one, three = (np.array([v, v], narrow) for v in (big, 1, 3))
    assert evaluate(lambda a, b: (a + b) - a, x, one, native=native)[0] == 0
    factor = np.array([FACTOR[name]] * 2, narrow)
    product = evaluate(lambda a: a * a - a, factor, native=native)[0]
    assert product == narrow.type(narrow.type(factor[0] * factor[0]) - factor[0])
    fused = evaluate(lambda a, b: tl.fma(a, a, b), factor, -factor * factor, native=native)[0]
    assert fused == FACTOR[name] ** 2 - float(narrow.type(FACTOR[name] ** 2)) != 0
    for function, wanted in (
        (lambda a, b: a / b, F32.type(1) / F32.type(3)),
        (lambda a, b: tl.fdiv(a, b), F32.type(1) / F32.type(3)),
    ):
        got = evaluate(function, one, three, native=native)
        assert (got.dtype, got[0]) == (F32, wanted)
    tenth = np.array([0.1, 0.1], narrow)
    remainder = evaluate(lambda a, b: a % b, x, tenth, native=native)
    assert (remainder.dtype, remainder[0]) == (F32, np.fmod(F32.type(x[0]), F32.type(tenth[0])))


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
def test_narrow_integers_wrap_but_add_up_in_32_bits(native: bool) -> None:
    for name, total in (
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("int16", "int32"),
        ("uint16", "uint32"),
    ):
        dtype = DTYPES[name]
        most = int(np.iinfo(dtype).max)
        x = np.array([most, most, 2, 3], dtype)
        assert evaluate(lambda a: a + a, x, native=native)[0] == (x + x)[0]
        for function, sums in ((tl.sum, 2 * most + 5), (lambda t: tl.cumsum(t, 0), None)):
            got = evaluate(function, x, native=native)
            assert got.dtype == DTYPES[total]
            np.testing.assert_array_equal(
                got, np.cumsum(x, dtype=np.int64) if sums is None else sums
            )
        product = evaluate(lambda t: tl.cumprod(t, 0), x, native=native)
        np.testing.assert_array_equal(
            product, np.cumprod(x.astype(DTYPES[total]), dtype=DTYPES[total])
        )
        kept = evaluate(lambda t: tl.reduce(t, 0, added), x, native=native)
        assert (kept.dtype, kept[()]) == (dtype, x.sum(dtype=dtype))
    flags = np.array([True, True, True, False])
    assert evaluate(tl.sum, flags, native=native) == 3
    assert list(evaluate(lambda t: tl.cumsum(t, 0), flags, native=native)) == [1, 2, 3, 3]
    assert not evaluate(lambda t: t + t, flags, native=native).any()  # one bit wraps


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
def test_extremes_are_widened_unless_indices_are_asked_for(native: bool) -> None:
    for name in ("fp16", "bf16", "int8", "uint16", "fp8e5"):
        x = np.array([1, 3, 3, 2]).astype(DTYPES[name])
        for function, wanted in ((tl.max, 3), (tl.min, 1)):
            got = evaluate(lambda t, f=function: f(t, 0), x, native=native)
            assert got.dtype == (np.int32 if name in ("int8", "uint16") else F32)
            assert got == wanted
            pair = evaluate(lambda t, f=function: f(t, 0, return_indices=True), x, native=native)
            assert [p.dtype for p in pair] == [DTYPES[name], np.int32]
            assert [float(p) for p in pair] == [wanted, 1 if wanted == 3 else 0]


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
def test_atomic_additions_of_narrow_floats_round_in_memory(native: bool) -> None:
    from language_harness import Pointer

    for name, narrow in NARROW.items():
        memory = np.array([BIG[name]], narrow)

        def program(p: Any) -> Any:
            return tl.atomic_add(p, 1), tl.atomic_add(p, 1)

        before = evaluate(program, Pointer(memory), native=native)
        assert [float(b) for b in before] == [BIG[name]] * 2
        assert memory[0] == BIG[name]


@pytest.mark.parametrize("native", [False, True], ids=["reference", "compiled"])
def test_products_of_matrices_add_in_fp32(native: bool) -> None:
    for name, narrow in NARROW.items():
        a = np.zeros((16, 16), narrow)
        a[0, :3] = BIG[name], 1, -BIG[name]
        b = np.ones((16, 16), narrow)
        assert evaluate(lambda x, y: tl.dot(x, y), a, b, native=native)[0, 0] == 1


def test_a_scalar_argument_promotes_as_a_tensor_does() -> None:
    got = evaluate(lambda x, s: x + s, np.ones(2, BF16), Scalar(0.1, "fp32"))
    assert (got.dtype, got[0]) == (F32, F32.type(1) + F32.type(0.1))
