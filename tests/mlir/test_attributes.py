"""Attributes and types: read, and written as MLIR writes them."""

import pytest
from mlir_reading import read

from emu.mlir import parse
from emu.mlir.attributes import (
    BoolAttr,
    DenseElementsAttr,
    DialectAttr,
    FloatAttr,
    IntegerAttr,
    RawAttr,
)
from emu.mlir.types import DialectType, FloatType, IntegerType, TensorType

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
