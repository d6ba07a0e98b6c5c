"""MLIR attributes as plain, frozen, hashable, picklable data.

``str(attribute)`` is the text that MLIR prints. Attributes of dialects that are not registered are
kept as their text (``DialectAttr``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from emu.mlir.base import Attribute as Attribute  # noqa: PLC0414  # offered with its subclasses
from emu.mlir.base import Type
from emu.mlir.dense import dense_text, element_bytes
from emu.mlir.floats import float_text
from emu.mlir.literals import key_text, quoted, symbol_text
from emu.mlir.types import FloatType, IntegerType, TensorType

_BOOL = IntegerType(1)
_I64 = IntegerType(64)
_F64 = FloatType("f64")


@dataclass(frozen=True, slots=True)
class UnitAttr(Attribute):
    """``unit``: its presence is all that it says."""

    def __str__(self) -> str:
        return "unit"


@dataclass(frozen=True, slots=True)
class BoolAttr(Attribute):
    """``true`` or ``false`` (an i1 integer attribute in MLIR)."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class IntegerAttr(Attribute):
    """``3 : i64``. i1 values are ``BoolAttr``."""

    value: int
    type: Type

    def __str__(self) -> str:
        return f"{self.value} : {self.type}"


@dataclass(frozen=True, slots=True)
class FloatAttr(Attribute):
    """``1.000000e+00 : f32``; the bits of the value in its own type.

    Attributes:
        bits: The encoding as an unsigned integer (NaN payloads survive).
        type: The float type.
    """

    bits: int
    type: Type

    def __str__(self) -> str:
        return f"{float_text(self.bits, str(self.type))} : {self.type}"


@dataclass(frozen=True, slots=True)
class StringAttr(Attribute):
    """``"text"``. Bytes that are not UTF-8 are kept by surrogateescape."""

    value: str

    def __str__(self) -> str:
        return quoted(self.value)


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """A type in the place of an attribute."""

    type: Type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class SymbolRefAttr(Attribute):
    """``@root::@nested``."""

    root: str
    nested: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "::".join(map(symbol_text, (self.root, *self.nested)))


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """``[a, b]``."""

    elements: tuple[Attribute, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(_in_array, self.elements))}]"


@dataclass(frozen=True, slots=True)
class DictAttr(Attribute):
    """``{a = 1 : i64, b}``; entries sorted by name. Make one with ``of``."""

    entries: tuple[tuple[str, Attribute], ...]

    @staticmethod
    def of(entries: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]]) -> DictAttr:
        """Make a dictionary of entries, which may come in any order."""
        # Sorted: equality and the printed text must not depend on the order in the source.
        return DictAttr(tuple(sorted(dict(entries).items())))

    def get(self, name: str) -> Attribute | None:
        """Return the attribute of that name, or None."""
        return next((value for key, value in self.entries if key == name), None)

    def as_dict(self) -> dict[str, Attribute]:
        """Return the entries as a new dict."""
        return dict(self.entries)

    def __str__(self) -> str:
        return f"{{{entries_text(self.entries)}}}"


@dataclass(frozen=True, slots=True)
class DenseArrayAttr(Attribute):
    """``array<i64: 1, 2>``; floats are kept as bits, booleans as 0 and 1."""

    element: Type
    values: tuple[int, ...]

    def __str__(self) -> str:
        # The colon goes too: MLIR does not read `array<i64: >`.
        if not self.values:
            return f"array<{self.element}>"
        if isinstance(self.element, FloatType):
            texts = [float_text(bits, self.element.name) for bits in self.values]
        elif self.element == _BOOL:
            texts = ["true" if value else "false" for value in self.values]
        else:
            texts = list(map(str, self.values))
        return f"array<{self.element}: {', '.join(texts)}>"


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

    @staticmethod
    def of(
        values: Sequence[int], shape: tuple[int, ...], element: Type = _I64
    ) -> DenseElementsAttr:
        """Make a tensor of integers, row-major; equal ones make a splat."""
        width = element_bytes(element) or 1
        mask = (1 << 8 * width) - 1  # two's complement of negative numbers
        splat = bool(values) and all(value == values[0] for value in values)
        kept = values[:1] if splat else values
        data = b"".join((value & mask).to_bytes(width, "little") for value in kept)
        return DenseElementsAttr(data, TensorType(shape, element), splat)

    def __str__(self) -> str:
        return f"{dense_text(self)} : {self.type}"


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

    def __str__(self) -> str:
        return f"#{self.dialect}{self.body}"


@dataclass(frozen=True, slots=True)
class RawAttr(Attribute):
    """A builtin attribute that is carried but not read, as MLIR writes it.

    ``affine_map<(d0) -> (d0)>``, ``dense_resource<x> : tensor<4xf32>``,
    ``sparse<…>``, ``strided<…>``, ``loc(…)``, ``distinct[0]<…>``.
    """

    text: str

    def __str__(self) -> str:
        return self.text


def entries_text(entries: Iterable[tuple[str, Attribute]]) -> str:
    """Return ``a = 1 : i64, b``: what stands between the braces of a dictionary.

    Args:
        entries: Sorted by name.
    """
    return ", ".join(
        key_text(name) if isinstance(value, UnitAttr) else f"{key_text(name)} = {value}"
        for name, value in entries
    )


def _in_array(attribute: Attribute) -> str:
    """Return an element's text: in arrays, MLIR leaves the types i64 and f64 out."""
    if isinstance(attribute, IntegerAttr) and attribute.type == _I64:
        return str(attribute.value)
    if isinstance(attribute, FloatAttr) and attribute.type == _F64:
        return float_text(attribute.bits, "f64")
    return str(attribute)
