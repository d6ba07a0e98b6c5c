"""Structs of tiling data: layout, values, errors."""

import copy
import struct
import subprocess
import sys
from typing import Annotated, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiling_structs import SAMPLE, Matrix, Sample

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    Field,
    TilingData,
    UnknownFieldError,
    layout_of,
    uint8,
    uint16,
    uint32,
)

MATRIX = TilingData.define("Matrix", [("mmVar", "uint16_t"), ("mmArr", "uint16_t", 3)])
DEFINED = TilingData.define(
    "Defined",
    [
        ("blkDim", "uint32_t"),
        ("totalSize", uint32),
        ("splitTile", "uint32"),
        ("arrSample", uint16[3]),
        ("mm", MATRIX),
    ],
)


@pytest.mark.parametrize("kind", [Sample, DEFINED], ids=["class", "define"])
def test_the_sample_has_the_bytes_of_the_specification(kind):
    sample = kind(blkDim=8, arrSample=[10, 2, 8], mm={"mmVar": 1, "mmArr": (10, 2, 8)})
    assert sample.to_bytes() == bytes.fromhex(SAMPLE)
    assert kind.size == 32
    assert kind.offsets() == {
        "blkDim": 0,
        "totalSize": 4,
        "splitTile": 8,
        "arrSample": 12,
        "mm.mmVar": 24,
        "mm.mmArr": 26,
    }


def test_both_ways_to_declare_give_equal_structs():
    assert Sample(blkDim=1) == DEFINED(blkDim=1)
    assert Sample(blkDim=1) != DEFINED(blkDim=2)
    assert Sample() != Matrix()
    assert layout_of(Sample) == layout_of(DEFINED)


def test_attributes_accessors_and_keywords_set_the_same_bytes():
    by_keyword = Sample(blkDim=7, arrSample=(1, 2, 3))
    by_attribute = Sample()
    by_attribute.blkDim = np.uint16(7)
    by_attribute.arrSample = np.array([1, 2, 3])
    by_accessor = Sample()
    by_accessor.set_blkDim(7)
    by_accessor.set_arrSample([1, 2, 3])
    assert by_keyword == by_attribute == by_accessor
    assert by_accessor.get_blkDim() == 7
    assert by_accessor.get_arrSample() == [1, 2, 3]
    assert not hasattr(Sample, "set_mm")


def test_nested_structs_and_arrays_are_views_of_the_same_bytes():
    sample = Sample()
    sample.mm.set_mmVar(5)
    sample.mm.mmArr[-1] = 9
    sample.arrSample[:2] = [4, 6]
    assert sample.mm == Matrix(mmVar=5, mmArr=[0, 0, 9])
    assert sample.arrSample == [4, 6, 0]
    assert sample.to_bytes()[24:26] == b"\5\0"
    assert np.asarray(sample.arrSample).tolist() == [4, 6, 0]
    assert np.asarray(sample.arrSample).dtype == np.uint16


def test_assigning_a_struct_copies_its_values():
    matrix = Matrix(mmVar=1)
    sample = Sample(mm=matrix)
    matrix.mmVar = 2
    assert sample.mm.mmVar == 1


def test_defaults_other_than_zero():
    class WithDefault(TilingData):
        kind: uint8 = 3
        arr: uint8[2] = (1, 2)
        mm: Matrix

    class More(WithDefault):
        last: uint8 = 9

    assert WithDefault().to_bytes()[:3] == b"\3\1\2"
    assert More().to_dict() == {
        "kind": 3,
        "arr": [1, 2],
        "mm": {"mmVar": 0, "mmArr": [0, 0, 0]},
        "last": 9,
    }
    assert WithDefault.from_bytes(bytes(24)).kind == 0


def test_annotations_in_quotes_are_evaluated_where_the_struct_is_declared():
    length = 4

    class Quoted(TilingData):
        limit: ClassVar[int] = 5
        a: "uint16_t"  # noqa: F821 - a type of tiling data, in quotes
        b: "uint16_t[2]"  # noqa: F821 - a type of tiling data, in quotes
        c: "uint8[length]"
        d: "Matrix"
        e: Annotated[list[int], uint16[3]]

    assert Quoted.layout().by_name["c"].size == length
    assert list(Quoted.layout().by_name) == ["a", "b", "c", "d", "e"]


def test_fields_named_like_methods_hide_them_and_everything_else_still_works():
    kind = TilingData.define("Odd", [(name, uint32) for name in ("size", "to_bytes", "self")])
    odd = kind(size=1, to_bytes=2, self=3)
    assert (odd.size, odd.to_bytes, odd.self) == (1, 2, 3)
    assert layout_of(kind).size == 16
    assert TilingData.to_bytes(odd) == struct.pack("<3I4x", 1, 2, 3)
    assert odd == odd.copy()
    assert "to_bytes=2" in repr(odd)


def test_a_class_attribute_is_the_field():
    assert isinstance(Sample.mm, Field)
    assert (Sample.mm.offset, Sample.mm.size, Sample.mm.padding) == (24, 8, 6)


def test_the_repr_names_what_is_not_default():
    sample = Sample(blkDim=8, mm={"mmVar": 1})
    assert repr(sample) == "Sample(blkDim=8, mm=Matrix(mmVar=1))"
    assert eval(repr(sample)) == sample
    assert repr(Sample()) == "Sample()"


def test_copies_have_bytes_of_their_own():
    sample = Sample(blkDim=8)
    for twin in (sample.copy(), copy.copy(sample), copy.deepcopy(sample)):
        assert twin == sample
        twin.mm.mmVar = 1
        assert sample.mm.mmVar == 0


def test_an_unknown_attribute_is_an_attribute_error_too():
    with pytest.raises(UnknownFieldError, match="did you mean blkDim"):
        _ = Sample().blkdim
    assert not hasattr(Sample(), "nothing")
    assert getattr(Sample(), "nothing", 5) == 5


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([("a", "uint24_t")], r"type of field Bad.a must be one of int8_t, .*, but got 'uint24_t'"),
        ([("a", int)], r"type of field Bad.a must be one of .*, but got <class 'int'>"),
        ([("a", uint8, 0)], "length of an array must be a whole number of at least 1, but got 0"),
        ([("a", uint8, 2.0)], "length of an array must be a whole number of at least 1"),
        ([("a", uint8), ("a", uint8)], "fields of Bad must have different names, but got two a"),
        ([("a-b", uint8)], "must be an identifier of C, but got 'a-b'"),
        ([("_memory", uint8)], "must be an identifier of C, but got '_memory'"),
        ([("a", Matrix, 2)], "elements of field Bad.a must be scalars"),
        ([("a",)], r"must be \(name, type\) or \(name, type, count\), but got \('a',\)"),
        ([("a", TilingData)], "struct of field Bad.a must have fields, but has none"),
    ],
)
def test_a_wrong_declaration_is_refused(fields, text):
    with pytest.raises(ArgumentError, match=text):
        TilingData.define("Bad", fields)


def test_wrong_class_statements_are_refused():
    with pytest.raises(ArgumentError, match=r"Bad.a must be a name that is known here"):

        class Bad(TilingData):
            a: "uint24_t"  # noqa: F821 - a type of tiling data, in quotes

    with pytest.raises(ArgumentError, match="pack must be 1, 2, 4 or 8, but got 3"):

        class Worse(TilingData, pack=3):
            a: uint8

    with pytest.raises(ArgumentError, match=r"field Worst.a must be in \[0, 255\], but got 256"):

        class Worst(TilingData):
            a: uint8 = 256

    with pytest.raises(ArgumentError, match="must declare fields, but has none"):
        TilingData()


def test_short_buffers_are_refused():
    with pytest.raises(ArgumentError, match="must hold the 32 bytes of Sample, but got 31"):
        Sample.from_bytes(bytes(31))
    with pytest.raises(ArgumentError, match="must hold the 32 bytes of Sample, but got 31"):
        Sample.from_bytes(bytes(32), offset=1)
    with pytest.raises(ArgumentError, match=r"offset must be in \[0, 32\], but got 33"):
        Sample.from_bytes(bytes(32), offset=33)
    with pytest.raises(ArgumentError, match="buffer must be bytes or an array, but got str"):
        Sample.from_bytes("00")


def test_buffers_may_be_longer_and_padding_is_dropped_unless_strict():
    data = bytearray(bytes.fromhex(SAMPLE) + b"more")
    assert Sample.from_bytes(data).to_bytes() == bytes.fromhex(SAMPLE)
    assert Sample.from_bytes(b"1234" + data, offset=4).to_bytes() == bytes.fromhex(SAMPLE)
    with pytest.raises(ArgumentError, match="exactly the 32 bytes of Sample, but got 36"):
        Sample.from_bytes(data, strict=True)
    data[20] = 0xAB
    assert Sample.from_bytes(data).to_bytes() == bytes.fromhex(SAMPLE)
    with pytest.raises(
        ArgumentError, match="padding mmPH of Sample must be zero, but got 00 00 ab"
    ):
        Sample.from_bytes(data[:32], strict=True)


def test_reading_copies():
    data = bytearray(32)
    sample = Sample.from_bytes(data)
    data[0] = 1
    assert sample.blkDim == 0


def test_save_to_buffer_writes_the_front_only():
    sample = Sample(blkDim=8)
    target = np.full(40, 0xFF, np.uint8)
    assert sample.save_to_buffer(target) == 32
    assert target.tobytes() == sample.to_bytes() + b"\xff" * 8


@pytest.mark.parametrize(
    ("buffer", "capacity", "text"),
    [
        (bytearray(31), None, "capacity must be at least 32 for Sample, but got 31"),
        (bytearray(40), 31, "capacity must be at least 32 for Sample, but got 31"),
        (bytearray(40), -1, "capacity must be at least 32 for Sample, but got -1"),
        (bytearray(40), 41, "capacity must be at most the 40 bytes of the buffer, but got 41"),
        (bytes(40), None, "must be writable"),
        (np.zeros(80, np.uint8)[::2], None, "must be contiguous"),
        (bytearray(), None, "capacity must be at least 32 for Sample, but got 0"),
    ],
)
def test_save_to_buffer_refuses_and_leaves_the_buffer_alone(buffer, capacity, text):
    before = bytes(buffer)
    with pytest.raises(ArgumentError, match=text):
        Sample(blkDim=8).save_to_buffer(buffer, capacity)
    assert bytes(buffer) == before


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 2**16 - 1), min_size=3, max_size=3),
    st.integers(0, 2**16 - 1),
)
def test_values_survive_a_round_trip(word, numbers, half):
    sample = Sample(blkDim=word, arrSample=numbers, mm={"mmVar": half})
    again = Sample.from_bytes(sample.to_bytes(), strict=True)
    assert again == sample
    assert (again.blkDim, again.arrSample, again.mm.mmVar) == (word, numbers, half)


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_any_bytes_can_be_read_and_what_is_not_padding_stays(data):
    again = Sample.from_bytes(data).to_bytes()
    assert again[:18] + again[24:] == data[:18] + data[24:]
    assert again[18:24] == bytes(6)


def test_structs_survive_pickle_and_need_no_numpy():
    code = (
        "import pickle, sys\n"
        "from emu.comm.tiling import TilingData\n"
        "Pair = TilingData.define('Pair', [('a', 'uint8_t'), ('b', 'uint32_t')])\n"
        "pair = pickle.loads(pickle.dumps(Pair(a=1, b=2)))\n"
        "assert type(pair) is Pair and (pair.a, pair.b) == (1, 2)\n"
        "print([name for name in ('numba', 'numpy', 'rich') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
