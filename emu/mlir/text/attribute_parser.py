"""Parser of attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from emu.mlir.affine import normalize
from emu.mlir.assembly import OpParser
from emu.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
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
from emu.mlir.dense import DenseError
from emu.mlir.diagnostics import Location
from emu.mlir.floats import FORMATS, bits_of
from emu.mlir.literals import integer_of, is_printable_integer, unescape
from emu.mlir.registry import attribute_parsers, closed_dialects
from emu.mlir.text.dense_parser import dense_elements
from emu.mlir.text.location_parser import LocationParser
from emu.mlir.text.location_printer import location_text
from emu.mlir.text.token_reader import TokenReader
from emu.mlir.text.type_parser import TypeParser
from emu.mlir.types import FloatType, IndexType, IntegerType, TensorType, Type, UnrankedTensorType

_NUMBER_START = frozenset("0123456789-")
_I64 = IntegerType(64)
_F64 = FloatType("f64")
_UNIT = UnitAttr()
_RAW = frozenset({"affine_map", "affine_set", "dense_resource", "sparse", "strided", "opaque"})
_TYPED_RAW = frozenset({"dense_resource", "sparse"})


class AttributeParser:
    """Parser of attributes, aliases included.

    Types and locations may hold attributes, and attributes both of them; so this parser makes the
    other two, and hands them its own method.

    Args:
        reader: The place in the text.
        parser: What the readers of dialect attributes get.

    Attributes:
        aliases: Attributes and locations by the names that the text gives them (``#alias = …``).
        types: The parser of types.
        locations: The parser of locations.
    """

    def __init__(self, reader: TokenReader, parser: OpParser) -> None:
        self.aliases: dict[str, Attribute | Location] = {}
        self.types = TypeParser(reader, self.attribute)
        self.locations = LocationParser(reader, self.aliases, self.attribute)
        self._reader = reader
        self._parser = parser
        # Attributes by their tokens: texts repeat few attributes many times.
        self._known: dict[str, Attribute] = {}
        self._dense: dict[tuple[str, Type], Attribute] = {}

    def attribute(self, type_: Type | None = None) -> Attribute:
        """Read an attribute.

        Args:
            type_: The type of a number or of dense elements where the text does not have it.
        """
        reader = self._reader
        token = reader.tokens[reader.index]
        if not token:
            reader.wrong_token("expected attribute value")
        if reader.frames:
            token = reader.join()
        first = token[0]
        if first == "#":
            return self._hash_attribute(token)
        if first == '"' and len(token) > 1:
            return self._string_attribute(token)
        if first in _NUMBER_START and token != "->":
            return self._number(token, type_)
        if first == "[":
            return self._array_of_attributes()
        if first == "{":
            return DictAttr.of(self.attribute_entries())
        if first == "@" and len(token) > 1:
            return self._symbol_reference()
        return self._word_attribute(token, type_)

    def peek_attribute(self) -> bool:
        """Return whether ``#…`` comes: an attribute with its full name, or an alias."""
        reader = self._reader
        return reader.tokens[reader.index][:1] == "#"

    def _word_attribute(self, token: str, type_: Type | None) -> Attribute:
        reader = self._reader
        if token == "true" or token == "false":
            reader.index += 1
            return BoolAttr(token == "true")
        if token == "unit":
            reader.index += 1
            return _UNIT
        word, bracket, _ = token.partition("<")
        if word == "dense":
            return self._dense_attribute(token, type_)
        if word == "array" and bracket:
            return self._array(token)
        if word in _RAW:
            return self._raw(token, word)
        if token == "distinct" or token == "loc" or token[:4] == "loc(":
            return self._raw_parenthesised(token)
        found = self.types.optional_type()
        if found is None:
            reader.wrong_token("expected attribute value")
        return TypeAttr(found)

    def _string_attribute(self, token: str) -> Attribute:
        reader = self._reader
        reader.index += 1
        if reader.accept(":"):
            return RawAttr(f"{token} : {self.types.type()}")
        return StringAttr(unescape(token))

    def _array_of_attributes(self) -> ArrayAttr:
        reader = self._reader
        reader.index += 1
        if reader.accept("]"):
            return ArrayAttr(())
        elements = [self.attribute()]
        while reader.accept(","):
            elements.append(self.attribute())
        if not reader.accept("]"):
            reader.wrong_token("expected ',' or ']'")
        return ArrayAttr(tuple(elements))

    def _symbol_reference(self) -> SymbolRefAttr:
        reader = self._reader
        root = reader.symbol()
        nested: list[str] = []
        while reader.accept("::"):
            name = reader.optional_symbol()
            if name is None:
                reader.wrong_token("expected nested symbol reference identifier")
            nested.append(name)
        return SymbolRefAttr(root, tuple(nested))

    # Numbers

    def _number(self, token: str, type_: Type | None) -> Attribute:
        reader = self._reader
        place = reader.starts[reader.index]
        reader.index += 1
        negative = token == "-"
        if negative:
            token = reader.tokens[reader.index]
            if not token or token[0] not in "0123456789":
                reader.wrong_token("expected constant integer or floating point value")
            reader.index += 1
        is_float = "." in token
        if type_ is None:
            type_ = self.types.type() if reader.accept(":") else (_F64 if is_float else _I64)
        if is_float:
            if not isinstance(type_, FloatType):
                reader.fail("floating point value not valid for specified type")
            value = float(token)
            return FloatAttr(bits_of(-value if negative else value, type_.name), type_)
        if isinstance(type_, FloatType):
            return self._hex_float(token, negative, type_, place)
        if not isinstance(type_, (IntegerType, IndexType)):
            reader.fail("integer literal not valid for specified type", place)
        number = integer_of(token)
        return self._integer_attribute(number, negative, type_, place)

    def _hex_float(self, token: str, negative: bool, type_: FloatType, place: int) -> Attribute:
        reader = self._reader
        if token[:2] != "0x":
            reader.fail(
                "unexpected decimal integer literal for a floating point value",
                place,
                notes=(("add a trailing dot to make the literal a float", place),),
            )
        if negative:
            reader.fail("hexadecimal float literal should not have a leading minus", place)
        bits = int(token, 16)
        if bits >> FORMATS[type_.name].width:
            reader.fail("hexadecimal float constant out of range for type", place)
        return FloatAttr(bits, type_)

    def _integer_attribute(
        self, number: int, negative: bool, type_: IntegerType | IndexType, place: int
    ) -> Attribute:
        reader = self._reader
        width = type_.width if isinstance(type_, IntegerType) else 64
        sign = type_.signedness if isinstance(type_, IntegerType) else ""
        value = -number if negative else number
        limit = 1 << width
        if sign == "u" and negative:
            reader.fail("negative integer literal not valid for unsigned integer type", place)
        low, high = (
            (0, limit) if sign == "u" else (-limit // 2, limit if sign == "" else limit // 2)
        )
        if not low <= value < high or not is_printable_integer(value):
            reader.fail("integer constant out of range for attribute", place)
        if width == 1 and sign == "":
            return BoolAttr(bool(value))
        if sign == "" and value >= limit // 2:
            value -= limit
        return IntegerAttr(value, type_)

    # Dictionaries

    def attribute_entries(self) -> list[tuple[str, Attribute]]:
        """Read ``{a = 1, b}``; return the entries in the order of the text."""
        reader = self._reader
        reader.expect("{")
        entries: list[tuple[str, Attribute]] = []
        if reader.accept("}"):
            return entries
        seen: set[str] = set()
        while True:
            place = reader.starts[reader.index]
            name = reader.optional_string()
            if name is None:
                name = reader.optional_keyword()
            if name is None:
                reader.wrong_token("expected attribute name")
            if not name:
                reader.fail("expected valid attribute name")
            if name in seen:
                reader.fail(f"duplicate key '{name}' in dictionary attribute", place)
            seen.add(name)
            entries.append((name, self.attribute() if reader.accept("=") else _UNIT))
            if not reader.accept(","):
                break
        reader.expect("}", " in attribute dictionary")
        return entries

    def optional_attr_dict(self) -> dict[str, Attribute]:
        """Read ``{…}`` if it comes; return {} otherwise."""
        return dict(self.attribute_entries()) if self._reader.peek("{") else {}

    def optional_attr_dict_with_keyword(self) -> dict[str, Attribute]:
        """Read ``attributes {…}`` if it comes; return {} otherwise."""
        return dict(self.attribute_entries()) if self._reader.accept_keyword("attributes") else {}

    # Attributes of dialects, and aliases

    def _hash_attribute(self, token: str) -> Attribute:
        reader = self._reader
        found = self._known.get(token)
        if found is not None:
            reader.index += 1
            return found
        name, bracket, _ = token[1:].partition("<")
        dialect, dot, _mnemonic = name.partition(".")
        if not bracket and not dot and reader.tokens[reader.index + 1] == "<":
            return self._short_inside(dialect)
        if not bracket and not dot:
            alias = self.aliases.get(name)
            reader.index += 1
            if alias is None:
                reader.fail(f"undefined symbol alias id '{name}'")
            return (
                alias if isinstance(alias, Attribute) else RawAttr(f"loc({location_text(alias)})")
            )
        found = self._registered(name) if dot else self._registered_short(token, dialect)
        if found is None:
            if dialect in closed_dialects:
                self._unknown(token, dialect)
            reader.index += 1
            body = re.sub(r"\s+", " ", token[1 + len(dialect) :])
            found = DialectAttr(dialect, body)
        if bracket:
            self._known[token] = found
        return found

    def _registered(self, name: str) -> Attribute | None:
        """Read ``#sdy.sharding<…>`` if the dialect has a reader for it."""
        reader = self._reader
        parse = attribute_parsers.get(name)
        if parse is None:
            return None
        bracketed = reader.tokens[reader.index][-1] == ">"
        if bracketed:
            reader.enter()
        reader.index += 1
        found = self._with(parse, name.partition(".")[2])
        if bracketed:
            reader.leave()
        return found

    def _with(self, parse: Callable[[OpParser, str], Attribute], mnemonic: str) -> Attribute:
        """Let a dialect read its attribute; its errors do not name an operation."""
        reader = self._reader
        outer, reader.custom_op = reader.custom_op, None
        try:
            return parse(self._parser, mnemonic)
        finally:
            reader.custom_op = outer

    def _registered_short(self, token: str, dialect: str) -> Attribute | None:
        """Read ``#sdy<sharding …>`` if the dialect has a reader for it."""
        reader = self._reader
        match = re.match(r"\s*([A-Za-z_][\w]*)", token[len(dialect) + 2 :])
        parse = attribute_parsers.get(f"{dialect}.{match[1]}") if match else None
        if match is None or parse is None:
            return None
        reader.enter()
        reader.index += 3
        found = self._with(parse, match[1])
        reader.expect(">")
        reader.leave()
        return found

    def _unknown(self, token: str, dialect: str) -> NoReturn:
        """Raise the error about an attribute that its dialect does not define."""
        reader = self._reader
        rest = token[len(dialect) + 2 :]
        mnemonic = re.match(r"\s*([A-Za-z_]\w*)", rest)
        place = reader.starts[reader.index] + len(dialect) + 2
        if mnemonic is None:
            reader.fail("expected valid keyword", place)
        reader.fail(f"unknown attribute `{mnemonic[1]}` in dialect `{dialect}`", place)

    def _short_inside(self, dialect: str) -> Attribute:
        """Read ``#sdy<sharding …>`` inside another attribute."""
        reader = self._reader
        reader.index += 2
        mnemonic = reader.keyword()
        parse = attribute_parsers.get(f"{dialect}.{mnemonic}")
        if parse is None:
            reader.fail(f"unknown attribute `{mnemonic}` in dialect `{dialect}`")
        found = self._with(parse, mnemonic)
        reader.expect(">")
        return found

    # Dense data and what passes as text

    def _dense_attribute(self, token: str, type_: Type | None) -> Attribute:
        reader = self._reader
        place = reader.starts[reader.index]
        if token == "dense":
            reader.index += 1
            reader.expect("<", " after 'dense'")
            reader.fail("expected '>'")
        reader.index += 1
        if type_ is None:
            if not reader.accept(":"):
                reader.wrong_token("expected ':'")
            type_ = self.types.type()
            if not isinstance(type_, TensorType) and not str(type_).startswith("vector<"):
                shaped = isinstance(type_, UnrankedTensorType)
                reader.fail(
                    "elements literal type must have static shape"
                    if shaped
                    else "elements literal must be a shaped type",
                    place,
                )
        found = self._dense.get((token, type_))
        if found is None:
            try:
                found = dense_elements(token[6:-1].strip(), type_)
            except DenseError as error:
                self._dense_error(error, place, token)
            self._dense[token, type_] = found
        return found

    def _dense_error(self, error: DenseError, place: int, token: str) -> NoReturn:
        reader = self._reader
        if error.offset is None:
            reader.fail(str(error), place)
        body = place + 6 + len(token[6:-1]) - len(token[6:-1].lstrip())
        at = body + error.offset
        reader.fail(str(error), at, notes=tuple((note, at) for note in error.notes))

    def _array(self, token: str) -> Attribute:
        reader = self._reader
        found = self._known.get(token)
        if found is not None:
            reader.index += 1
            return found
        reader.enter()
        reader.index += 2
        place = reader.starts[reader.index]
        element = self.types.type()
        if not isinstance(element, (IntegerType, FloatType)):
            reader.fail(f"expected integer or float type, got: '{element}'", place)
        values: list[int] = []
        if not reader.peek(">"):
            reader.expect(":")
            values = [self._array_element(element)]
            while reader.accept(","):
                values.append(self._array_element(element))
        reader.expect(">", " to close an array attribute")
        reader.leave()
        found = DenseArrayAttr(element, tuple(values))
        self._known[token] = found
        return found

    def _array_element(self, element: Type) -> int:
        reader = self._reader
        token = reader.tokens[reader.index]
        if token[:1] in _NUMBER_START or token in ("true", "false"):
            value = self.attribute(element)
            if isinstance(value, BoolAttr):
                return int(value.value)
            if isinstance(value, FloatAttr):
                return value.bits
            if isinstance(value, IntegerAttr):
                return value.value
        reader.fail(
            "expected integer or floating point literal"
            if isinstance(element, FloatType)
            else "expected integer literal"
        )

    def _raw(self, token: str, word: str) -> Attribute:
        reader = self._reader
        if token == word:
            token = self._balanced("<", ">")
        else:
            reader.index += 1
        text = normalize(re.sub(r"\s+", " ", token))
        if word in _TYPED_RAW and reader.accept(":"):
            text = f"{text} : {self.types.type()}"
        return RawAttr(text)

    def _raw_parenthesised(self, token: str) -> Attribute:
        reader = self._reader
        if token == "distinct":
            start = reader.starts[reader.index]
            reader.index += 1
            self._balanced("[", "]")
            if reader.peek("<"):
                self._balanced("<", ">")
            end = reader.starts[reader.index - 1] + len(reader.tokens[reader.index - 1])
            return RawAttr(re.sub(r"\s+", " ", reader.source.text[start:end]))
        found = self.locations.optional_location()
        return RawAttr(f"loc({'unknown' if found is None else location_text(found)})")

    def _balanced(self, open_: str, close: str) -> str:
        """Skip to the closing bracket; return the text from the next token on."""
        reader = self._reader
        start = reader.starts[reader.index]
        if reader.tokens[reader.index] != open_:
            reader.index += 1
        reader.expect(open_)
        depth = 1
        while depth:
            token = reader.tokens[reader.index]
            if not token:
                reader.fail(f"expected '{close}'")
            depth += (token == open_) - (token == close)
            reader.index += 1
        return reader.source.text[start : reader.starts[reader.index - 1] + 1]
