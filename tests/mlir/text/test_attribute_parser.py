"""Aliases of attributes, and attributes that are wrong."""

import pytest
from mlir_reading import read

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import MlirError


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
