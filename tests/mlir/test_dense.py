"""Dense elements."""

from hypothesis import given, settings
from hypothesis import strategies as st
from mlir_reading import read

from emu.mlir.attributes import (
    DenseElementsAttr,
)


def test_more_than_a_hundred_elements_are_written_in_hexadecimal() -> None:
    values = ", ".join(map(str, range(101)))
    text = str(read(f"dense<[{values}]> : tensor<101xi8>"))
    assert text == f'dense<"0x{bytes(range(101)).hex().upper()}"> : tensor<101xi8>'
    assert str(read(text)) == text
    few = f"dense<[{', '.join(map(str, range(100)))}]> : tensor<100xi8>"
    assert str(read(few)) == few


@settings(deadline=None)
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
