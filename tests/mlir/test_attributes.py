"""Attributes and types: read, and written as MLIR writes them."""

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.mlir import parse, to_text
from emu.mlir.attributes import (
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    DialectAttr,
    FloatAttr,
    IntegerAttr,
    RawAttr,
    StringAttr,
)
from emu.mlir.diagnostics import MlirError
from emu.mlir.floats import FORMATS, bits_of, float_text, value_of
from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import DialectType, FloatType, IntegerType, TensorType


def read(text: str) -> Attribute:
    module = parse(f'"t.op"() {{a = {text}}} : () -> ()')
    op = module.body().first
    assert op is not None
    return op.attributes["a"]


SAME = [
    "3 : i32",
    "-4 : i64",
    "7 : index",
    "200 : ui8",
    "-3 : si4",
    "123456789012345678901 : i128",
    "2.500000e+00 : f64",
    "0.699999988 : f32",
    "1.234500e+05 : f32",
    "0x7FC00000 : f32",
    "0xFF80 : bf16",
    "-0.000000e+00 : f64",
    "1.953130e-03 : bf16",
    "0x4996B438 : f32",
    "3.1415926535897931 : f64",
    "true",
    "unit",
    '"tab\\09 \\22q\\22 \\C3\\A9 \\\\"',
    '@x::@"y z"',
    "tensor<2x?xbf16>",
    "tensor<*xf32>",
    "tensor<0x4xf32>",
    "tensor<4xf32, #foo.enc<1>>",
    "tensor<2xcomplex<f64>>",
    "tensor<3x!foo.t<x, [1]>>",
    "(i32, tensor<f32>) -> ()",
    "(i32) -> ((i32) -> i32)",
    "() -> (i32, f32)",
    "tuple<i32, tuple<>>",
    "vector<4x[2]xf32>",
    "none",
    '[1, 2 : i8, "x", 1.500000e+00, unit, [], {}]',
    '{a, "odd key" = 2 : i64, z = true}',
    "array<i64: 1, -2>",
    "array<i1: true, false>",
    "array<f32: 1.000000e+00, 0.699999988>",
    "array<i32>",
    "!foo.bar<1, [2]>",
    "!foo<bar>",
    "#foo<bar -> baz>",
    '#foo.bar<x = ["<"]>',
    "dense_resource<blob> : tensor<4xf32>",
    "strided<[1, 2], offset: 3>",
    'loc("a"(callsite("b" at "c":1:2)))',
    "distinct[0]<unit>",
    "dense<[1, 2]> : tensor<2xi32>",
    "dense<> : tensor<0x3xf32>",
    "dense<[[true, false]]> : tensor<1x2xi1>",
    "dense<(1.000000e+00,-2.000000e+00)> : tensor<complex<f32>>",
    "dense<[(1.000000e+00,2.000000e+00), (3.000000e+00,4.000000e+00)]> : tensor<2xcomplex<f64>>",
    "dense<[1.000000e-01, 0x7F800000]> : tensor<2xf32>",
    "dense<-1> : tensor<3xi4>",
    "dense<[200, 1]> : tensor<2xui8>",
    "dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xindex>",
    'dense<["a", "b"]> : tensor<2x!foo.str>',
    "dense<1.000000e+00> : vector<4xf32>",
]


@pytest.mark.parametrize("text", SAME)
def test_what_is_written_as_it_is_read(text: str) -> None:
    assert str(read(text)) == text


CHANGED = [
    ("0x1F : i32", "31 : i32"),
    ("255 : i8", "-1 : i8"),
    ("1 : i1", "true"),
    ("2.5", "2.500000e+00 : f64"),
    ("5", "5 : i64"),
    ("0.1 : f16", "9.997550e-02 : f16"),
    ("1.0e10 : f16", "0x7C00 : f16"),
    ("[1 : i64, 2.0 : f64]", "[1, 2.000000e+00]"),
    ("{b = unit, a = [ ]}", "{a = [], b}"),
    ("dense<[[1, 1], [1, 1]]> : tensor<2x2xi8>", "dense<1> : tensor<2x2xi8>"),
    ('dense<"0x0100000002000000"> : tensor<2xi32>', "dense<[1, 2]> : tensor<2xi32>"),
    ("dense<[7]> : tensor<1xi32>", "dense<7> : tensor<1xi32>"),
    ("tensor< 2 x 3 x f32 >", "tensor<2x3xf32>"),
    ('loc(fused["a", "a", unknown])', 'loc("a")'),
    ('loc("f":3:4 to 3:4)', 'loc("f":3:4)'),
    ('loc("f":3:4 to 3:9)', 'loc("f":3:4 to :9)'),
]


@pytest.mark.parametrize(("text", "expected"), CHANGED)
def test_what_is_written_in_another_way(text: str, expected: str) -> None:
    assert str(read(text)) == expected


def test_more_than_a_hundred_elements_are_written_in_hexadecimal() -> None:
    values = ", ".join(map(str, range(101)))
    text = str(read(f"dense<[{values}]> : tensor<101xi8>"))
    assert text == f'dense<"0x{bytes(range(101)).hex().upper()}"> : tensor<101xi8>'
    assert str(read(text)) == text
    few = f"dense<[{', '.join(map(str, range(100)))}]> : tensor<100xi8>"
    assert str(read(few)) == few


def test_kinds_of_attributes() -> None:
    assert read("true") == BoolAttr(True)
    assert read("-7 : i16") == IntegerAttr(-7, IntegerType(16))
    assert read("1.0 : f32") == FloatAttr(0x3F800000, FloatType("f32"))
    assert read("#d<x>") == DialectAttr("d", "<x>")
    assert read("#d.m<x>") == DialectAttr("d", ".m<x>")
    assert read("strided<[1]>") == RawAttr("strided<[1]>")
    splat = read("dense<2> : tensor<4xi16>")
    assert splat == DenseElementsAttr(b"\2\0", TensorType((4,), IntegerType(16)), True)
    module = parse('"t.op"() {a = !d.m<1>} : () -> ()')
    assert "!d.m<1>" in str(module)
    assert str(DialectType("d", "m<1>")) == "!d.m<1>"


def test_aliases() -> None:
    module = parse(
        """
        #one = 1 : i8
        !t = tensor<4xf32>
        %0 = "t.a"() {x = #one, y = [#one], z = !t} : () -> !t
        """
    )
    assert to_text(module) == (
        "module {\n"
        '  %0 = "t.a"() {x = 1 : i8, y = [1 : i8], z = tensor<4xf32>} : () -> tensor<4xf32>\n'
        "}\n"
    )


def test_affine_maps_get_short_names() -> None:
    module = parse(
        """
        #m = affine_map<(i, j)[n] -> (j, i + n)>
        #s = affine_set<(i) : (i >= 0)>
        "t.a"() {x = #m, y = [#m, affine_map<() -> ()>], z = #s, w = "affine_map<>"} : () -> ()
        """
    )
    assert to_text(module) == (
        "#map = affine_map<(d0, d1)[s0] -> (d1, d0 + s0)>\n"
        "#map1 = affine_map<() -> ()>\n"
        "#set = affine_set<(d0) : (d0 >= 0)>\n"
        "module {\n"
        '  "t.a"() {w = "affine_map<>", x = #map, y = [#map, #map1], z = #set} : () -> ()\n'
        "}\n"
    )
    assert to_text(parse(to_text(module))) == to_text(module)


WRONG = [
    ("300 : i8", "integer constant out of range for attribute"),
    ("-1 : ui8", "negative integer literal not valid for unsigned integer type"),
    ("1 : f32", "unexpected decimal integer literal for a floating point value"),
    ("1.0 : i32", "floating point value not valid for specified type"),
    ("1 : tensor<i32>", "integer literal not valid for specified type"),
    ("0x1FFFF : bf16", "hexadecimal float constant out of range for type"),
    ("[1, 2", "expected ',' or ']'"),
    ("{a = 1, a = 2}", "duplicate key 'a' in dictionary attribute"),
    ("#nothing", "undefined symbol alias id 'nothing'"),
    ("!nothing", "undefined symbol alias id 'nothing'"),
    ("dense<[1, 2]> : tensor<3xi32>", "inferred shape of elements literal ([2]) does not match"),
    ("dense<[1, [2]]> : tensor<2xi32>", "ranks are not consistent between elements"),
    ("dense<1> : tensor<?xi32>", "elements literal type must have static shape"),
    ("dense<1> : f32", "elements literal must be a shaped type"),
    ('dense<"0x00"> : tensor<3xi32>', "elements hex data size is invalid"),
    ("dense<[1.0]> : tensor<1xi32>", "expected integer elements, but parsed floating-point"),
    ("array<i32: 1, x>", "expected integer literal"),
    ("@x::y", "expected nested symbol reference identifier"),
    ("tensor<4xnone>", "invalid tensor element type: 'none'"),
    ("i99999999999", "invalid integer width"),
    ('"open', "expected '\"' in string literal"),
    ("%", "invalid SSA name"),
    ("", "expected attribute value"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_attributes(text: str, message: str) -> None:
    with pytest.raises(MlirError) as caught:
        read(text)
    assert message in str(caught.value)


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


@given(st.floats(allow_nan=False))
def test_doubles_keep_their_bits(value: float) -> None:
    bits = bits_of(value, "f64")
    assert struct.pack("<Q", bits) == struct.pack("<d", value)
    assert read(f"{float_text(bits, 'f64')} : f64") == FloatAttr(bits, FloatType("f64"))


@given(st.floats(min_value=-(2.0**100), max_value=2.0**100, width=32))
def test_f32_by_the_general_way_is_f32(value: float) -> None:
    if value:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        assert bits_of(Fraction(value), "f32") == bits
        assert value_of(bits, "f32") == Fraction(value)


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_strings_read_back(value: str) -> None:
    attribute = StringAttr(value)
    assert str(attribute).isascii()
    assert read(str(attribute)) == attribute


@given(
    st.integers(1, 64).flatmap(
        lambda w: st.tuples(st.just(w), st.lists(st.integers(-(2 ** (w - 1)), 2 ** (w - 1) - 1)))
    )
)
def test_dense_integers_read_back(drawn: tuple[int, list[int]]) -> None:
    width, values = drawn
    if width == 1:
        values = [-v for v in values]
    text = f"dense<[{', '.join(map(str, values))}]> : tensor<{len(values)}xi{width}>"
    attribute = read(text if values else f"dense<> : tensor<0xi{width}>")
    assert isinstance(attribute, DenseElementsAttr)
    assert read(str(attribute)) == attribute
    size = (width + 7) // 8
    mask = (1 << width) - 1
    expected = b"".join((v & mask).to_bytes(size, "little") for v in values)
    if attribute.splat:
        assert attribute.data * len(values) == expected
    else:
        assert attribute.data == expected


def test_a_type_alone_is_read() -> None:
    assert str(parse_type("tensor<4x?xcomplex<f32>>")) == "tensor<4x?xcomplex<f32>>"
    with pytest.raises(ValueError, match="expected a type without encoding"):
        parse_type("tensor<4xf32, #a.b<1>>")
