"""Float formats against NumPy's and ml_dtypes', and against the table of the kernels."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.kernels.core import dtypes
from emu.mlir.dense import element_bytes
from emu.mlir.floats import FORMATS, bits_of, value_of
from emu.mlir.types import FloatType, IntegerType, scalar_type

# NumPy and ml_dtypes have all formats but these.
ELSEWHERE = sorted(FORMATS.keys() - {"tf32", "f80", "f128"})


def numpy_type(name: str) -> np.dtype[np.generic]:
    """``float8_e4m3fn`` for ``f8E4M3FN``, ``bfloat16`` for ``bf16``."""
    long = name.replace("bf", "bfloat") if name.startswith("b") else "float" + name[1:]
    long = long.replace("E", "_e", 1).lower()
    return np.dtype(getattr(np, long, None) or getattr(ml_dtypes, long))


def mlir_name(dtype: dtypes.DType) -> str:
    """``i1`` for bool, ``ui8`` for uint8, ``f8E5M2`` for float8_e5m2."""
    if dtype.kind == dtypes.BOOL:
        return "i1"
    if not dtype.is_float:
        return dtype.short.replace("u", "ui")
    head, _, tail = dtype.short.partition("_")
    return head + tail.upper()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_the_tables_of_mlir_and_of_the_kernels_agree(dtype: dtypes.DType) -> None:
    type_ = scalar_type(mlir_name(dtype))
    assert type_ is not None
    assert element_bytes(type_) == dtype.numpy.itemsize
    if isinstance(type_, FloatType):
        format_ = FORMATS[type_.name]
        found = (format_.width, format_.mantissa, format_.bias)
        assert found == (dtype.bits, dtype.mantissa, dtype.bias)
        assert numpy_type(type_.name) == dtype.numpy
    else:
        assert isinstance(type_, IntegerType)
        assert type_.width == (1 if dtype.kind == dtypes.BOOL else dtype.bits)
        assert (type_.signedness == "u") == (dtype.numpy.kind == "u")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_widths(name: str) -> None:
    info, format_ = ml_dtypes.finfo(numpy_type(name)), FORMATS[name]
    assert (info.bits, info.nexp, info.nmant) == (format_.width, format_.exponent, format_.mantissa)


def decoded(bits: int, name: str) -> float:
    unsigned = np.dtype(f"u{numpy_type(name).itemsize}")
    return float(np.array(bits, unsigned).view(numpy_type(name)))


def is_same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@pytest.mark.parametrize("name", [n for n in ELSEWHERE if FORMATS[n].width <= 8])
def test_every_encoding_of_a_narrow_format(name: str) -> None:
    for bits in range(1 << FORMATS[name].width):
        value = value_of(bits, name)
        assert is_same(float(value), decoded(bits, name)), hex(bits)
        if not math.isnan(value):
            assert bits_of(value, name) == bits


@given(st.sampled_from(["f16", "bf16", "f32", "f64"]), st.integers(0, 2**64 - 1))
def test_encodings_of_wide_formats(name: str, bits: int) -> None:
    bits &= (1 << FORMATS[name].width) - 1
    value = value_of(bits, name)
    assert is_same(float(value), decoded(bits, name))
    if not math.isnan(value):
        assert bits_of(value, name) == bits


# ml_dtypes rounds f64 to f32 first, so numbers for the narrow formats have that width already.
_NUMBERS = st.one_of(
    st.tuples(st.just("f32"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(
        st.sampled_from(["f16", "bf16"]), st.floats(width=32, allow_nan=False, allow_infinity=False)
    ),
)


@given(_NUMBERS)
def test_rounding_is_to_nearest_even(case: tuple[str, float]) -> None:
    name, number = case
    with np.errstate(over="ignore", under="ignore"):
        expected = np.array(number, np.float64).astype(numpy_type(name))
    unsigned = np.dtype(f"u{expected.itemsize}")
    value = number if number == 0 else Fraction(number)
    assert bits_of(value, name) == int(expected.view(unsigned))
