"""Names of symbols in attributes."""

from __future__ import annotations

import pytest
from mlir_reading import PRETTY

from emu.mlir import parse
from emu.mlir.attributes import (
    ArrayAttr,
    DictAttr,
    RawAttr,
    StringAttr,
    SymbolRefAttr,
)
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable, indexed, lookup, symbol_references

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


def test_symbol_tables() -> None:
    module = parse(PRETTY)
    table = SymbolTable(module)
    assert table.names == ["main", "helper", "odd name", "other"]
    assert table.lookup("helper") is lookup(module, "helper") is not None
    other = table.lookup("other")
    assert other is not None
    copy = other.clone()
    assert table.insert(copy) == "other_0"
    assert table.insert(other.clone(), before=other) == "other_1"
    assert table.names == ["main", "helper", "odd name", "other_1", "other", "other_0"]
    assert "other_0" in table
    table.erase(copy)
    assert table.lookup("other_0") is None
    with pytest.raises(ValueError, match="has no symbol name"):
        table.insert(Operation("t.a"))
    with pytest.raises(ValueError, match="holds no symbols"):
        SymbolTable(other)


def test_symbols_are_found_from_inside() -> None:
    module = parse(PRETTY)
    main = lookup(module, "main")
    assert main is not None
    assert lookup(main.body().terminator, "other") is lookup(module, "other")
    assert lookup(main.body().terminator, "nobody") is None


def test_an_index_of_symbols_follows_the_table() -> None:
    module = parse(PRETTY, verify=False)
    helper = lookup(module, "helper")
    with indexed(module):
        assert lookup(module.body().operations[0].body().operations[0], "helper") is helper
        assert lookup(module, "nobody") is None
        copy = helper.clone()
        name = SymbolTable(module).insert(copy)
        assert (lookup(module, name), lookup(module, "helper")) == (copy, helper)
        with indexed(module):
            pass
        assert lookup(module, name) is copy
    copy.erase()
    assert lookup(module, name) is None
