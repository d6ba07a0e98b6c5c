"""Reading attributes and locations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from emu.mlir.affine import normalize
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
from emu.mlir.dense import DenseError, dense_elements
from emu.mlir.diagnostics import UNKNOWN, CallSiteLoc, FileLoc, FusedLoc, Location, NameLoc
from emu.mlir.floats import FORMATS, bits_of
from emu.mlir.registry import attribute_parsers, closed_dialects
from emu.mlir.text.location_printer import location_text
from emu.mlir.text.token_reader import unescape
from emu.mlir.text.type_parser import TypeReader
from emu.mlir.types import FloatType, IndexType, IntegerType, TensorType, Type, UnrankedTensorType

if TYPE_CHECKING:
    from emu.mlir.text.lexer import SourceText
    from emu.mlir.text.parser import Parser

__all__ = ["AttributeReader"]

_NUMBER_START = frozenset("0123456789-")
_I64 = IntegerType(64)
_F64 = FloatType("f64")
_UNIT = UnitAttr()
_RAW = frozenset({"affine_map", "affine_set", "dense_resource", "sparse", "strided", "opaque"})
_TYPED_RAW = frozenset({"dense_resource", "sparse"})
_LOC_ALIAS = re.compile(r"loc\((#loc[0-9]*)\)")


class AttributeReader(TypeReader):
    """Reads attributes and locations, aliases included."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self.attribute_aliases: dict[str, Attribute | Location] = {}
        self._attributes: dict[str, Attribute] = {}
        self._dense: dict[tuple[str, Type], Attribute] = {}
        self._deferred: list[tuple[object, str, int]] = []

    def attribute(self, type_: Type | None = None) -> Attribute:
        """Read an attribute.

        Args:
            type_: The type of a number or of dense elements, if the text does
                not write it.
        """
        token = self.tokens[self.index]
        if not token:
            self.wrong_token("expected attribute value")
        if self._frames:
            token = self._join()
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
        """Whether ``#…`` comes: an attribute with its full name, or an alias."""
        return self.tokens[self.index][:1] == "#"

    def _word_attribute(self, token: str, type_: Type | None) -> Attribute:
        if token == "true" or token == "false":
            self.index += 1
            return BoolAttr(token == "true")
        if token == "unit":
            self.index += 1
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
        found = self.optional_type()
        if found is None:
            self.wrong_token("expected attribute value")
        return TypeAttr(found)

    def _string_attribute(self, token: str) -> Attribute:
        self.index += 1
        if self.accept(":"):
            return RawAttr(f"{token} : {self.type()}")
        return StringAttr(unescape(token))

    def _array_of_attributes(self) -> ArrayAttr:
        self.index += 1
        if self.accept("]"):
            return ArrayAttr(())
        elements = [self.attribute()]
        while self.accept(","):
            elements.append(self.attribute())
        if not self.accept("]"):
            self.wrong_token("expected ',' or ']'")
        return ArrayAttr(tuple(elements))

    def _symbol_reference(self) -> SymbolRefAttr:
        root = self.symbol()
        nested: list[str] = []
        while self.accept("::"):
            name = self.optional_symbol()
            if name is None:
                self.wrong_token("expected nested symbol reference identifier")
            nested.append(name)
        return SymbolRefAttr(root, tuple(nested))

    # Numbers

    def _number(self, token: str, type_: Type | None) -> Attribute:
        place = self.starts[self.index]
        self.index += 1
        negative = token == "-"
        if negative:
            token = self.tokens[self.index]
            if not token or token[0] not in "0123456789":
                self.wrong_token("expected constant integer or floating point value")
            self.index += 1
        is_float = "." in token
        if type_ is None:
            type_ = self.type() if self.accept(":") else (_F64 if is_float else _I64)
        if is_float:
            if not isinstance(type_, FloatType):
                self.fail("floating point value not valid for specified type")
            value = float(token)
            return FloatAttr(bits_of(-value if negative else value, type_.name), type_)
        if isinstance(type_, FloatType):
            return self._hex_float(token, negative, type_, place)
        if not isinstance(type_, (IntegerType, IndexType)):
            self.fail("integer literal not valid for specified type", place)
        number = int(token, 0) if token[:2] == "0x" else int(token)
        return self._integer_attribute(number, negative, type_, place)

    def _hex_float(self, token: str, negative: bool, type_: FloatType, place: int) -> Attribute:
        if token[:2] != "0x":
            self.fail(
                "unexpected decimal integer literal for a floating point value",
                place,
                notes=(("add a trailing dot to make the literal a float", place),),
            )
        if negative:
            self.fail("hexadecimal float literal should not have a leading minus", place)
        bits = int(token, 16)
        if bits >> FORMATS[type_.name].width:
            self.fail("hexadecimal float constant out of range for type", place)
        return FloatAttr(bits, type_)

    def _integer_attribute(
        self, number: int, negative: bool, type_: IntegerType | IndexType, place: int
    ) -> Attribute:
        width = type_.width if isinstance(type_, IntegerType) else 64
        sign = type_.signedness if isinstance(type_, IntegerType) else ""
        value = -number if negative else number
        limit = 1 << width
        if sign == "u" and negative:
            self.fail("negative integer literal not valid for unsigned integer type", place)
        low, high = (
            (0, limit) if sign == "u" else (-limit // 2, limit if sign == "" else limit // 2)
        )
        if not low <= value < high:
            self.fail("integer constant out of range for attribute", place)
        if width == 1 and sign == "":
            return BoolAttr(bool(value))
        if sign == "" and value >= limit // 2:
            value -= limit
        return IntegerAttr(value, type_)

    # Dictionaries

    def attribute_entries(self) -> list[tuple[str, Attribute]]:
        """Read ``{a = 1, b}``."""
        self.expect("{")
        entries: list[tuple[str, Attribute]] = []
        if self.accept("}"):
            return entries
        seen: set[str] = set()
        while True:
            place = self.starts[self.index]
            name = self.optional_string()
            if name is None:
                name = self.optional_keyword()
            if name is None:
                self.wrong_token("expected attribute name")
            if not name:
                self.fail("expected valid attribute name")
            if name in seen:
                self.fail(f"duplicate key '{name}' in dictionary attribute", place)
            seen.add(name)
            entries.append((name, self.attribute() if self.accept("=") else _UNIT))
            if not self.accept(","):
                break
        self.expect("}", " in attribute dictionary")
        return entries

    def optional_attr_dict(self) -> dict[str, Attribute]:
        """Read ``{…}`` if it comes; {} if not."""
        return dict(self.attribute_entries()) if self.peek("{") else {}

    def optional_attr_dict_with_keyword(self) -> dict[str, Attribute]:
        """Read ``attributes {…}`` if it comes; {} if not."""
        return dict(self.attribute_entries()) if self.accept_keyword("attributes") else {}

    # Attributes of dialects, and aliases

    def _hash_attribute(self, token: str) -> Attribute:
        found = self._attributes.get(token)
        if found is not None:
            self.index += 1
            return found
        name, bracket, _ = token[1:].partition("<")
        dialect, dot, _mnemonic = name.partition(".")
        if not bracket and not dot and self.tokens[self.index + 1] == "<":
            return self._short_inside(dialect)
        if not bracket and not dot:
            alias = self.attribute_aliases.get(name)
            self.index += 1
            if alias is None:
                self.fail(f"undefined symbol alias id '{name}'")
            return (
                alias if isinstance(alias, Attribute) else RawAttr(f"loc({location_text(alias)})")
            )
        found = self._registered(name) if dot else self._registered_short(token, dialect)
        if found is None:
            if dialect in closed_dialects:
                self._unknown(token, dialect)
            self.index += 1
            body = re.sub(r"\s+", " ", token[1 + len(dialect) :])
            found = DialectAttr(dialect, body)
        if bracket:
            self._attributes[token] = found
        return found

    def _registered(self, name: str) -> Attribute | None:
        """Read ``#sdy.sharding<…>`` if somebody knows how."""
        parse = attribute_parsers.get(name)
        if parse is None:
            return None
        bracketed = self.tokens[self.index][-1] == ">"
        if bracketed:
            self._enter()
        self.index += 1
        found = self._with(parse, name.partition(".")[2])
        if bracketed:
            self._leave()
        return found

    def _with(self, parse: Callable[[Parser, str], Attribute], mnemonic: str) -> Attribute:
        """Have a dialect read its attribute; its errors do not name an operation."""
        outer, self.custom_op = self.custom_op, None
        try:
            return parse(self, mnemonic)  # type: ignore[arg-type]  # we are a Parser
        finally:
            self.custom_op = outer

    def _registered_short(self, token: str, dialect: str) -> Attribute | None:
        """Read ``#sdy<sharding …>`` if somebody knows how."""
        match = re.match(r"\s*([A-Za-z_][\w]*)", token[len(dialect) + 2 :])
        parse = attribute_parsers.get(f"{dialect}.{match[1]}") if match else None
        if match is None or parse is None:
            return None
        self._enter()
        self.index += 3
        found = self._with(parse, match[1])
        self.expect(">")
        self._leave()
        return found

    def _unknown(self, token: str, dialect: str) -> NoReturn:
        """Raise the error about an attribute that its dialect does not have."""
        rest = token[len(dialect) + 2 :]
        mnemonic = re.match(r"\s*([A-Za-z_]\w*)", rest)
        place = self.starts[self.index] + len(dialect) + 2
        if mnemonic is None:
            self.fail("expected valid keyword", place)
        self.fail(f"unknown attribute `{mnemonic[1]}` in dialect `{dialect}`", place)

    def _short_inside(self, dialect: str) -> Attribute:
        """Read ``#sdy<sharding …>`` inside another attribute."""
        self.index += 2
        mnemonic = self.keyword()
        parse = attribute_parsers.get(f"{dialect}.{mnemonic}")
        if parse is None:
            self.fail(f"unknown attribute `{mnemonic}` in dialect `{dialect}`")
        found = self._with(parse, mnemonic)
        self.expect(">")
        return found

    # Dense data and what passes as text

    def _dense_attribute(self, token: str, type_: Type | None) -> Attribute:
        place = self.starts[self.index]
        if token == "dense":
            self.index += 1
            self.expect("<", " after 'dense'")
            self.fail("expected '>'")
        self.index += 1
        if type_ is None:
            if not self.accept(":"):
                self.wrong_token("expected ':'")
            type_ = self.type()
            if not isinstance(type_, TensorType) and not str(type_).startswith("vector<"):
                shaped = isinstance(type_, UnrankedTensorType)
                self.fail(
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
        if error.offset is None:
            self.fail(str(error), place)
        body = place + 6 + len(token[6:-1]) - len(token[6:-1].lstrip())
        at = body + error.offset
        self.fail(str(error), at, notes=tuple((note, at) for note in error.notes))

    def _array(self, token: str) -> Attribute:
        found = self._attributes.get(token)
        if found is not None:
            self.index += 1
            return found
        self._enter()
        self.index += 2
        place = self.starts[self.index]
        element = self.type()
        if not isinstance(element, (IntegerType, FloatType)):
            self.fail(f"expected integer or float type, got: '{element}'", place)
        values: list[int] = []
        if not self.peek(">"):
            self.expect(":")
            values = [self._array_element(element)]
            while self.accept(","):
                values.append(self._array_element(element))
        self.expect(">", " to close an array attribute")
        self._leave()
        found = DenseArrayAttr(element, tuple(values))
        self._attributes[token] = found
        return found

    def _array_element(self, element: Type) -> int:
        token = self.tokens[self.index]
        if token[:1] in _NUMBER_START or token in ("true", "false"):
            value = self.attribute(element)
            if isinstance(value, BoolAttr):
                return int(value.value)
            if isinstance(value, FloatAttr):
                return value.bits
            if isinstance(value, IntegerAttr):
                return value.value
        self.fail(
            "expected integer or floating point literal"
            if isinstance(element, FloatType)
            else "expected integer literal"
        )

    def _raw(self, token: str, word: str) -> Attribute:
        if token == word:
            token = self._balanced("<", ">")
        else:
            self.index += 1
        text = normalize(re.sub(r"\s+", " ", token))
        if word in _TYPED_RAW and self.accept(":"):
            text = f"{text} : {self.type()}"
        return RawAttr(text)

    def _raw_parenthesised(self, token: str) -> Attribute:
        if token == "distinct":
            start = self.starts[self.index]
            self.index += 1
            self._balanced("[", "]")
            if self.peek("<"):
                self._balanced("<", ">")
            end = self.starts[self.index - 1] + len(self.tokens[self.index - 1])
            return RawAttr(re.sub(r"\s+", " ", self.source.text[start:end]))
        found = self.optional_location()
        return RawAttr(f"loc({'unknown' if found is None else location_text(found)})")

    def _balanced(self, open_: str, close: str) -> str:
        """Skip to the bracket that closes; the text from the next token on."""
        start = self.starts[self.index]
        if self.tokens[self.index] != open_:
            self.index += 1
        self.expect(open_)
        depth = 1
        while depth:
            token = self.tokens[self.index]
            if not token:
                self.fail(f"expected '{close}'")
            depth += (token == open_) - (token == close)
            self.index += 1
        return self.source.text[start : self.starts[self.index - 1] + 1]

    # Locations

    def optional_location(self) -> Location | None:
        """Read ``loc(…)`` if it comes; an alias that is not defined is an error."""
        token = self.tokens[self.index]
        if token == "loc" and self.tokens[self.index + 1] == "(":
            self.index += 2
            found = self._location()
            self.expect(")", " in location")
            return found
        if token[:5] == "loc(#":
            alias = self.attribute_aliases.get(token[5:-1])
            if not isinstance(alias, Location):
                self.fail(f"undefined symbol alias id '{token[5:-1]}'")
            self.index += 1
            return alias
        return None

    def trailing_location(self, owner: object) -> None:
        """Read ``loc(…)`` behind an operation or argument, and give it to it.

        An alias may be defined at the end of the text: then it is given later.
        """
        token = self.tokens[self.index]
        if token[:5] == "loc(#":
            alias = self.attribute_aliases.get(token[5:-1])
            if isinstance(alias, Location):
                owner.location = alias  # type: ignore[attr-defined]
            else:
                self._deferred.append((owner, token[5:-1], self.starts[self.index]))
            self.index += 1
        elif token == "loc":
            name = self.tokens[self.index + 2]
            if name[:1] == "#" and self.tokens[self.index + 3] == ")":
                self._deferred.append((owner, name[1:], self.starts[self.index + 2]))
                self.index += 4
                return
            found = self.optional_location()
            if found is not None:
                owner.location = found  # type: ignore[attr-defined]

    def _resolve_deferred(self) -> None:
        for owner, name, place in self._deferred:
            alias = self.attribute_aliases.get(name)
            if alias is None:
                self.fail("operation location alias was never defined", place)
            if not isinstance(alias, Location):
                self.fail(f"expected location, but found '{alias}'", place)
            owner.location = alias  # type: ignore[attr-defined]

    def _location(self) -> Location:
        token = self.tokens[self.index]
        if token[:1] == '"':
            return self._name_or_file()
        if token[:1] == "#":
            alias = self.attribute_aliases.get(token[1:])
            if not isinstance(alias, Location):
                self.fail(f"undefined symbol alias id '{token[1:]}'")
            self.index += 1
            return alias
        if self.accept_keyword("unknown"):
            return UNKNOWN
        if self.accept_keyword("callsite"):
            self.expect("(", " in callsite location")
            callee = self._location()
            self.expect_keyword("at", " in callsite location")
            caller = self._location()
            self.expect(")", " in callsite location")
            return CallSiteLoc(callee, caller)
        if self.accept_keyword("fused"):
            return self._fused()
        self.fail("expected location instance")

    def _fused(self) -> Location:
        metadata = ""
        if self.accept("<"):
            metadata = str(self.attribute())
            self.expect(">", " after fused location metadata")
        self.expect("[")
        parts = [self._location()]
        while self.accept(","):
            parts.append(self._location())
        self.expect("]", " in fused location")
        return _fuse(parts, metadata)

    def _name_or_file(self) -> Location:
        name = self.string()
        if self.accept(":"):
            line = self._line_or_column("line")
            self.expect(":", " in FileLineColRange")
            column = self._line_or_column("column")
            if not self.accept_keyword("to"):
                return FileLoc(name, line, column)
            end_line = line if self.peek(":") else self._line_or_column("line")
            self.expect(":", " in FileLineColRange")
            return FileLoc(name, line, column, end_line, self._line_or_column("column"))
        if not self.accept("("):
            return NameLoc(name, UNKNOWN)
        child = self._location()
        self.expect(")", " after child location of NameLoc")
        return NameLoc(name, child)

    def _line_or_column(self, what: str) -> int:
        value = self.optional_integer()
        if value is None:
            self.wrong_token(f"expected integer {what} number in FileLineColRange")
        return value


def _fuse(parts: list[Location], metadata: str) -> Location:
    """A fused location without what says nothing: doubles, unknowns, nesting."""
    flat: dict[Location, None] = {}
    for part in parts:
        if isinstance(part, FusedLoc) and part.metadata == metadata:
            flat.update(dict.fromkeys(part.locations))
        elif part != UNKNOWN:
            flat[part] = None
    if metadata:
        return FusedLoc(tuple(flat) or (UNKNOWN,), metadata)
    if not flat:
        return UNKNOWN
    return FusedLoc(tuple(flat)) if len(flat) > 1 else next(iter(flat))
