"""Values of fields: scalars, arrays and text, their ranges and their rounding."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiling_structs import EveryType, Sample

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    TilingData,
    float32,
    int8,
    int64,
)


def test_every_type_keeps_its_value():
    values = {
        "flag": True,
        "wide": 0.1,
        "real": 0.5,
        "small": -128,
        "large": 2**64 - 1,
        "text": b"hi",
        "letter": b"x",
    }
    filled = EveryType(**values)
    assert filled.to_dict() == values
    assert EveryType.from_bytes(filled.to_bytes(), strict=True) == filled
    expected = struct.pack("<?7xdfb3xQ5sc2x", True, 0.1, 0.5, -128, 2**64 - 1, b"hi", b"x")
    assert filled.to_bytes() == expected


def test_floats_are_rounded_to_the_nearest_and_may_be_infinite_or_nan():
    filled = EveryType(real=0.1, wide=math.inf)
    assert filled.real == np.float32(0.1)
    assert math.isinf(filled.wide)
    filled.real = math.nan
    assert math.isnan(filled.real)
    assert filled == filled.copy()  # by bytes


def test_text_is_stored_as_utf8_with_zeros_behind():
    assert EveryType(text="é").text == "é".encode()
    with pytest.raises(ArgumentError, match=r"EveryType.text must have at most 5 bytes, but got 6"):
        EveryType(text="ééé")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("blkDim", 2**32, r"field Sample.blkDim must be in \[0, 4294967295\], but got 4294967296"),
        ("blkDim", -1, r"must be in \[0, 4294967295\], but got -1"),
        ("blkDim", 3.0, r"must be a whole number in \[0, 4294967295\], but got 3.0"),
        ("blkDim", math.nan, r"must be a whole number in .*, but got nan"),
        ("blkDim", "3", r"must be a whole number in .*, but got '3'"),
        ("blkDim", None, r"must be a whole number in .*, but got None"),
        ("arrSample", [1, 2], r"field Sample.arrSample must have 3 elements, but got 2"),
        ("arrSample", 5, r"must be a sequence of 3 elements, but got 5"),
        ("arrSample", "abc", r"must be a sequence of 3 elements, but got 'abc'"),
        ("arrSample", [1, 2, 65536], r"arrSample\[2\] must be in \[0, 65535\], but got 65536"),
        ("mm", 5, r"must be a Matrix or a dictionary of its fields, but got 5"),
        ("mm", {"mmVar": 1, "nothing": 2}, r"field of Matrix must be one of mmVar, mmArr"),
        ("blkDims", 5, r"field of Sample must be one of .*, but got 'blkDims'; did you mean"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_changes(name, value, text):
    sample = Sample(blkDim=8, arrSample=[1, 2, 3], mm={"mmVar": 4})
    before = sample.to_bytes()
    with pytest.raises(ArgumentError, match=text):
        setattr(sample, name, value)
    assert sample.to_bytes() == before
    with pytest.raises(ArgumentError, match=text):
        Sample(**{name: value})


def test_wrong_elements_are_refused_and_nothing_changes():
    sample = Sample(arrSample=[1, 2, 3])
    with pytest.raises(ArgumentError, match=r"Sample.arrSample\[1\] must be in \[0, 65535\]"):
        sample.arrSample[1] = -1
    with pytest.raises(ArgumentError, match=r"Sample.arrSample must have 3 elements, but got 4"):
        sample.arrSample[:1] = [7, 7]
    with pytest.raises(ArgumentError, match=r"arrSample\[1\]"):
        sample.arrSample[:2] = [7, 70000]
    with pytest.raises(IndexError):
        sample.arrSample[3] = 1
    assert sample.arrSample == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("real", 1e39, r"must be in \[-3.4028235e\+38, 3.4028235e\+38\], infinite or NaN"),
        ("wide", 10**400, r"infinite or NaN, but got 1000"),
        ("real", "1", "must be a number, but got '1'"),
        ("real", [1.0], "must be a number"),
        ("real", None, "must be a number"),
        ("flag", 2, "must be true or false, but got 2"),
        ("flag", "yes", "must be true or false"),
        ("text", 5, "must be text or bytes, but got 5"),
        ("letter", "ab", "must be one character, but got 'ab'"),
    ],
)
def test_values_that_a_type_lacks_are_refused(name, value, text):
    with pytest.raises(ArgumentError, match=text):
        EveryType(**{name: value})


@settings(deadline=None)
@given(st.floats(width=32) | st.floats())
def test_floats_are_rounded_as_numpy_rounds(value):
    with np.errstate(over="ignore"):
        expected = np.float32(value)
    if math.isinf(expected) and not math.isinf(value):
        with pytest.raises(ArgumentError, match="infinite or NaN"):
            TilingDataFloat(real=value)
    else:
        assert TilingDataFloat(real=value).real == expected or math.isnan(value)


class TilingDataFloat(TilingData):
    real: float32


def test_signed_numbers_reach_both_ends():
    kind = TilingData.define("Signed", [("a", int64), ("b", int8)])
    assert kind(a=-(2**63), b=127).to_bytes() == struct.pack("<qb7x", -(2**63), 127)
    with pytest.raises(ArgumentError, match=r"Signed.b must be in \[-128, 127\], but got 128"):
        kind(b=128)
