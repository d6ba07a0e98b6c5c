"""Types by themselves."""

import pytest

from emu.mlir.text.type_parser import parse_type


def test_a_type_alone_is_read() -> None:
    assert str(parse_type("tensor<4x?xcomplex<f32>>")) == "tensor<4x?xcomplex<f32>>"
    with pytest.raises(ValueError, match="expected a type without encoding"):
        parse_type("tensor<4xf32, #a.b<1>>")
