"""Names of symbols that attributes refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, SymbolRefAttr

__all__ = ["symbol_references"]


def _no_names(_: Attribute) -> Iterator[str]:
    return iter(())


def symbol_references(
    attribute: Attribute, of_leaf: Callable[[Attribute], Iterator[str]] = _no_names
) -> Iterator[str]:
    """Yield the names of the symbols that an attribute refers to, without "@".

    Args:
        attribute: The attribute; arrays and dictionaries are searched.
        of_leaf: Yields the names in any other attribute, such as one of a dialect.
            Default: none.
    """
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root
    elif isinstance(attribute, ArrayAttr):
        for element in attribute.elements:
            yield from symbol_references(element, of_leaf)
    elif isinstance(attribute, DictAttr):
        for _, value in attribute.entries:
            yield from symbol_references(value, of_leaf)
    else:
        yield from of_leaf(attribute)
