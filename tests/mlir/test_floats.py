"""Float formats against NumPy's and ml_dtypes', and against the table of the kernels."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir_reading import read

from emu.kernels.core import dtypes
from emu.mlir.attributes import (
    FloatAttr,
)
from emu.mlir.dense import element_bytes
from emu.mlir.floats import FORMATS, bits_of, float_text, value_of
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


@settings(deadline=None)
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


@settings(deadline=None)
@given(_NUMBERS)
def test_rounding_is_to_nearest_even(case: tuple[str, float]) -> None:
    name, number = case
    with np.errstate(over="ignore", under="ignore"):
        expected = np.array(number, np.float64).astype(numpy_type(name))
    unsigned = np.dtype(f"u{expected.itemsize}")
    value = number if number == 0 else Fraction(number)
    assert bits_of(value, name) == int(expected.view(unsigned))


@settings(deadline=None)
@given(st.floats(width=32) | st.floats(width=32).map(lambda x: float(f"{x:.3g}")))
def test_floats_read_back(value: float) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    assert read(f"{float_text(bits, 'f32')} : f32") == FloatAttr(bits, FloatType("f32"))


@pytest.mark.parametrize("name", [n for n, f in FORMATS.items() if f.width <= 8])
def test_all_small_floats_read_back(name: str) -> None:
    for bits in range(1 << FORMATS[name].width):
        text = float_text(bits, name)
        assert text.startswith("0x") or bits_of(float(text), name) == bits
        value = value_of(bits, name)
        if not isinstance(value, float) or not math.isnan(value):
            assert bits_of(value, name) == bits


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_doubles_keep_their_bits(value: float) -> None:
    bits = bits_of(value, "f64")
    assert struct.pack("<Q", bits) == struct.pack("<d", value)
    assert read(f"{float_text(bits, 'f64')} : f64") == FloatAttr(bits, FloatType("f64"))


@settings(deadline=None)
@given(st.floats(min_value=-(2.0**100), max_value=2.0**100, width=32))
def test_f32_by_the_general_way_is_f32(value: float) -> None:
    if value:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        assert bits_of(Fraction(value), "f32") == bits
        assert value_of(bits, "f32") == Fraction(value)
