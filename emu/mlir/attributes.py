"""MLIR attributes as plain, frozen, hashable, picklable data.

``str(attribute)`` is the text that MLIR prints. Attributes of dialects that
nobody registered are kept as their text (`DialectAttr`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.mlir.types import Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ArrayAttr",
    "Attribute",
    "BoolAttr",
    "DenseArrayAttr",
    "DenseElementsAttr",
    "DialectAttr",
    "DictAttr",
    "FloatAttr",
    "IntegerAttr",
    "RawAttr",
    "StringAttr",
    "SymbolRefAttr",
    "TypeAttr",
    "UnitAttr",
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """Base of all attributes, those of dialects included."""

    def __str__(self) -> str:
        # The printer knows how numbers, strings and nesting are written.
        from emu.mlir.text.attribute_printer import attribute_text

        return attribute_text(self)


@dataclass(frozen=True, slots=True)
class UnitAttr(Attribute):
    """``unit``: being there is all that it says."""


@dataclass(frozen=True, slots=True)
class BoolAttr(Attribute):
    """``true`` or ``false`` (an i1 integer attribute in MLIR)."""

    value: bool


@dataclass(frozen=True, slots=True)
class IntegerAttr(Attribute):
    """``3 : i64``. i1 values are `BoolAttr`."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class FloatAttr(Attribute):
    """``1.000000e+00 : f32``; the bits of the value in its own type.

    Attributes:
        bits: The encoding as an unsigned integer (NaN payloads survive).
        type: The float type.
    """

    bits: int
    type: Type


@dataclass(frozen=True, slots=True)
class StringAttr(Attribute):
    """``"text"``. Bytes that are not UTF-8 are kept by surrogateescape."""

    value: str


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """A type where an attribute is asked for."""

    type: Type


@dataclass(frozen=True, slots=True)
class SymbolRefAttr(Attribute):
    """``@root::@nested``."""

    root: str
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """``[a, b]``."""

    elements: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class DictAttr(Attribute):
    """``{a = 1 : i64, b}``; entries sorted by name. Make one with `of`."""

    entries: tuple[tuple[str, Attribute], ...]

    @staticmethod
    def of(entries: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]]) -> DictAttr:
        """A dictionary of these entries, in any order."""
        return DictAttr(tuple(sorted(dict(entries).items())))

    def get(self, name: str) -> Attribute | None:
        """The attribute of that name, or None."""
        return next((value for key, value in self.entries if key == name), None)

    def as_dict(self) -> dict[str, Attribute]:
        """A new dict of the entries."""
        return dict(self.entries)


@dataclass(frozen=True, slots=True)
class DenseArrayAttr(Attribute):
    """``array<i64: 1, 2>``; floats are kept as bits, booleans as 0 and 1."""

    element: Type
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DenseElementsAttr(Attribute):
    """``dense<[1, 2]> : tensor<2xi64>``.

    Attributes:
        data: The elements, little endian, row-major, each in whole bytes (i1
            and i4 take a byte, complex is real then imaginary). A splat holds
            one element.
        type: The tensor (or vector) type.
        splat: Whether all elements equal the one in ``data``.
    """

    data: bytes
    type: Type
    splat: bool


@dataclass(frozen=True, slots=True)
class DialectAttr(Attribute):
    """An attribute of a dialect, kept as text: ``#stablehlo<precision DEFAULT>``.

    Attributes:
        dialect: The dialect's name.
        body: What follows the name, the dot or angle bracket included:
            ``"<precision DEFAULT>"`` or ``".bounds<4>"``.
    """

    dialect: str
    body: str


@dataclass(frozen=True, slots=True)
class RawAttr(Attribute):
    """A builtin attribute that we carry but do not read, as MLIR writes it.

    ``affine_map<(d0) -> (d0)>``, ``dense_resource<x> : tensor<4xf32>``,
    ``sparse<…>``, ``strided<…>``, ``loc(…)``, ``distinct[0]<…>``.
    """

    text: str
