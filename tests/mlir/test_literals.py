"""String literals."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse
from emu.mlir.attributes import (
    Attribute,
    StringAttr,
)


def read(text: str) -> Attribute:
    module = parse(f'"t.op"() {{a = {text}}} : () -> ()')
    op = module.body().first
    assert op is not None
    return op.attributes["a"]


@settings(deadline=None)
@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_strings_read_back(value: str) -> None:
    attribute = StringAttr(value)
    assert str(attribute).isascii()
    assert read(str(attribute)) == attribute
