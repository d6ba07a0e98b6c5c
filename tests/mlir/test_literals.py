"""String literals."""

from hypothesis import given, settings
from hypothesis import strategies as st
from mlir_reading import read

from emu.mlir.attributes import (
    StringAttr,
)


@settings(deadline=None)
@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_strings_read_back(value: str) -> None:
    attribute = StringAttr(value)
    assert str(attribute).isascii()
    assert read(str(attribute)) == attribute
