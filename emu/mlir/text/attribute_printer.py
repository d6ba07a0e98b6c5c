"""How attributes are written."""

from __future__ import annotations

import re
from functools import lru_cache

from emu.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    RawAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from emu.mlir.dense import dense_text
from emu.mlir.floats import float_text
from emu.mlir.types import FloatType, IntegerType

__all__ = [
    "RESOURCES",
    "attribute_text",
    "attribute_text_without_type",
    "dict_text",
    "quoted",
    "symbol_text",
]

RESOURCES = "{-#"
"""The property of a module that keeps the text's resources.

It is no attribute of MLIR's: the printer writes it behind the module.
"""

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_UNPRINTABLE = re.compile(rb"[^ !#-\[\]-~]")
_I64 = IntegerType(64)
_F64 = FloatType("f64")


@lru_cache(maxsize=16384)
def quoted(text: str) -> str:
    """A string literal: quotes, and two hex digits for what is not printable."""
    raw = text.encode("utf-8", "surrogateescape")
    escaped = _UNPRINTABLE.sub(lambda m: b"\\\\" if m[0] == b"\\" else b"\\%02X" % m[0][0], raw)
    return f'"{escaped.decode("ascii")}"'


@lru_cache(maxsize=16384)
def symbol_text(name: str) -> str:
    """``@name``, quoted where it is no identifier."""
    return f"@{name}" if _BARE.fullmatch(name) else f"@{quoted(name)}"


@lru_cache(maxsize=16384)
def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def dict_text(entries: list[tuple[str, Attribute]]) -> str:
    """``a = 1 : i64, b`` of sorted entries."""
    return ", ".join(
        _key(name) if isinstance(value, UnitAttr) else f"{_key(name)} = {value}"
        for name, value in entries
    )


def attribute_text(attribute: Attribute) -> str:
    """What ``str(attribute)`` gives for the builtin ones."""
    if isinstance(attribute, (IntegerAttr, FloatAttr, DenseElementsAttr)):
        return f"{attribute_text_without_type(attribute)} : {attribute.type}"
    return attribute_text_without_type(attribute)


def _in_array(attribute: Attribute) -> str:
    if isinstance(attribute, IntegerAttr) and attribute.type == _I64:
        return str(attribute.value)
    if isinstance(attribute, FloatAttr) and attribute.type == _F64:
        return float_text(attribute.bits, "f64")
    return str(attribute)


def attribute_text_without_type(attribute: Attribute) -> str:
    """The text without a trailing ``: type``, for places where the type is known."""
    match attribute:
        case IntegerAttr(value, _):
            return str(value)
        case FloatAttr(bits, FloatType(name)):
            return float_text(bits, name)
        case StringAttr(value):
            return quoted(value)
        case BoolAttr(flag):
            return "true" if flag else "false"
        case UnitAttr():
            return "unit"
        case TypeAttr(type_):
            return str(type_)
        case SymbolRefAttr(root, nested):
            return "::".join(map(symbol_text, (root, *nested)))
        case ArrayAttr(elements):
            return f"[{', '.join(map(_in_array, elements))}]"
        case DictAttr(entries):
            return f"{{{dict_text(list(entries))}}}"
        case DenseArrayAttr():
            return _dense_array(attribute)
        case DenseElementsAttr():
            return dense_text(attribute)
        case DialectAttr(dialect, body):
            return f"#{dialect}{body}"
        case RawAttr(text):
            return text
        case _:
            return str(attribute)


def _dense_array(attribute: DenseArrayAttr) -> str:
    element = attribute.element
    if not attribute.values:
        return f"array<{element}>"
    if isinstance(element, FloatType):
        values = [float_text(bits, element.name) for bits in attribute.values]
    elif element == IntegerType(1):
        values = ["true" if value else "false" for value in attribute.values]
    else:
        values = list(map(str, attribute.values))
    return f"array<{element}: {', '.join(values)}>"
