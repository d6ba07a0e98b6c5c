"""Types by themselves."""

import pytest

from emu.mlir.text.type_parser import parse_type


def test_a_type_alone_is_read() -> None:
    assert str(parse_type("tensor<4x?xcomplex<f32>>")) == "tensor<4x?xcomplex<f32>>"
    with pytest.raises(ValueError, match="expected a type without encoding"):
        parse_type("tensor<4xf32, #a.b<1>>")


def test_a_size_of_zero_before_a_word_is_no_hexadecimal_number() -> None:
    for text in ("tensor<0xcomplex<f32>>", "tensor<2x0xcomplex<f64>>", "tensor<0xbf16>"):
        assert str(parse_type(text)) == text
