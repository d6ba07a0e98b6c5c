"""``reduce_precision`` in kernels, against the reference: all patterns of bits, or those at the edges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from stablehlo_compiled import check, function

FORMATS = [
    (1, 0),
    (2, 1),
    (3, 0),
    (4, 3),
    (5, 2),
    (5, 10),
    (8, 0),
    (8, 1),
    (8, 7),
    (8, 22),
    (8, 23),
]


def edges() -> np.ndarray:
    """Return floats at all exponents, with mantissas around where formats round."""
    mantissas = {0, 1, (1 << 23) - 1}
    for bit in range(23):
        mantissas |= {1 << bit, (1 << bit) + 1, ((1 << 23) - (1 << bit)), (3 << bit) & 0x7FFFFF}
        mantissas |= {((1 << 23) - (1 << bit) - 1), ((1 << bit) | (1 << 22)) & 0x7FFFFF}
    exponents = np.arange(256, dtype=np.uint32) << np.uint32(23)
    bits = exponents[:, None] | np.array(sorted(mantissas), np.uint32)
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).reshape(-1).view(np.float32)


def program(element: str, count: int, exponent: int, mantissa: int) -> str:
    t = f"tensor<{count}x{element}>"
    body = f"%0 = stablehlo.reduce_precision %x, format = e{exponent}m{mantissa} : {t}\nreturn %0 : {t}"
    return function(body, f"%x: {t}", t)


@pytest.mark.parametrize(("exponent", "mantissa"), [*FORMATS, (8, 40)])
def test_of_f32(exponent: int, mantissa: int) -> None:
    x = edges()
    with np.errstate(invalid="ignore"):  # signalling NaN, when results are compared
        check(program("f32", x.size, exponent, mantissa), x)


@pytest.mark.parametrize(("exponent", "mantissa"), [*FORMATS, (11, 52)])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_of_sixteen_bits(element: str, exponent: int, mantissa: int) -> None:
    dtype = np.float16 if element == "f16" else ml_dtypes.bfloat16
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        check(program(element, x.size, exponent, mantissa), x, fallbacks=None)


def test_wider_exponents_and_doubles_are_the_reference_s() -> None:
    x = np.array([1e-40, 3.3, np.nan, -np.inf], np.float32)
    check(program("f32", 4, 9, 5), x, fallbacks=1)
    check(program("f64", 4, 8, 5), x.astype(np.float64), fallbacks=1)
