"""Names of symbols in attributes."""

from __future__ import annotations

from emu.mlir.attributes import ArrayAttr, DictAttr, RawAttr, StringAttr, SymbolRefAttr
from emu.mlir.symbols import symbol_references

NESTED = ArrayAttr(
    (
        SymbolRefAttr("first"),
        StringAttr("@none"),
        DictAttr(
            (
                (
                    "key",
                    ArrayAttr((SymbolRefAttr("second"), RawAttr("@third"))),
                ),
            )
        ),
    )
)


def test_arrays_and_dictionaries_are_searched() -> None:
    assert list(symbol_references(NESTED)) == ["first", "second"]


def test_other_attributes_are_left_to_the_caller() -> None:
    def of_leaf(attribute):
        return iter([attribute.text.lstrip("@")] if isinstance(attribute, RawAttr) else [])

    assert list(symbol_references(NESTED, of_leaf)) == ["first", "second", "third"]
