"""Parser of types."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from emu.mlir.base import Attribute
from emu.mlir.literals import integer_of
from emu.mlir.text.lexer import SourceText
from emu.mlir.text.token_reader import INT64_MAX, TokenReader
from emu.mlir.types import (
    ComplexType,
    DialectType,
    FloatType,
    FunctionType,
    IntegerType,
    NoneType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    scalar_type,
)

_SIMPLE_TENSOR = re.compile(r"tensor<((?:(?:[1-9][0-9]*|0|\?)x)*)([A-Za-z][A-Za-z0-9]*)>")
_BRACKETED = frozenset({"tensor", "vector", "memref", "tuple", "complex"})
_MAX_WIDTH = (1 << 24) - 1


@lru_cache(maxsize=65536)
def _simple_tensor(text: str) -> Type | None:
    """Return the type of ``tensor<4x?xf32>``; None for less simple texts."""
    match = _SIMPLE_TENSOR.fullmatch(text)
    if match is None:
        return None
    dimensions, word = match.groups()
    element = scalar_type(word)
    if element is None or isinstance(element, NoneType):
        return None
    if isinstance(element, IntegerType) and element.width > _MAX_WIDTH:
        return None  # read as any other type, it is an error with its place
    shape = tuple(None if d == "?" else integer_of(d) for d in dimensions.split("x")[:-1])
    if any(d is not None and d > INT64_MAX for d in shape):
        return None  # likewise
    return TensorType(shape, element)


class TypeParser:
    """Parser of types, aliases of types included.

    Args:
        reader: The place in the text.
        parse_encoding: Reads the attribute of ``tensor<4xf32, #encoding>``.

    Attributes:
        aliases: Types by the names that the text gives them (``!alias = …``).
    """

    def __init__(self, reader: TokenReader, parse_encoding: Callable[[], Attribute]) -> None:
        self.aliases: dict[str, Type] = {}
        self._reader = reader
        self._parse_encoding = parse_encoding
        # Types by their tokens: texts repeat few types many times.
        self._known: dict[str, Type] = {}

    def type(self) -> Type:
        """Read a type."""
        found = self.optional_type()
        if found is None:
            self._reader.wrong_token("expected non-function type")
        return found

    def optional_type(self) -> Type | None:
        """Read a type if one comes."""
        reader = self._reader
        token = reader.tokens[reader.index]
        found = self._known.get(token)
        if found is not None:
            reader.index += 1
            return found
        if not token:
            return None
        found = _simple_tensor(token) if token[:7] == "tensor<" else scalar_type(token)
        if found is None:
            return self._compound_type(token)
        if isinstance(found, IntegerType) and found.width > _MAX_WIDTH:
            if found.width >= 1 << 32:
                reader.fail("invalid integer width")
            reader.fail(f"integer bitwidth is limited to {_MAX_WIDTH} bits")
        reader.index += 1
        self._known[token] = found
        return found

    def _compound_type(self, token: str) -> Type | None:
        reader = self._reader
        if token == "(":
            return self.function_type()
        if reader.frames:
            token = reader.join()
        if token[0] == "!":
            return self._dialect_type(token)
        word, bracket, _ = token.partition("<")
        if word not in _BRACKETED:
            return None
        if not bracket:
            # It is not balanced, or blanks are between.
            if reader.tokens[reader.index + 1] != "<":
                reader.index += 1
                reader.wrong_token(f"expected '<' in {word} type")
            return self._bracketed(word)
        if word in ("vector", "memref"):
            reader.index += 1
            found: Type = DialectType("", _one_line(token))
        else:
            reader.enter()
            found = self._bracketed(word)
            reader.leave()
        self._known[token] = found
        return found

    def _bracketed(self, word: str) -> Type:
        reader = self._reader
        reader.index += 2
        if word == "tensor":
            return self._tensor()
        if word == "complex":
            place = reader.starts[reader.index]
            element = self.type()
            if not isinstance(element, (FloatType, IntegerType)):
                reader.fail("invalid element type for complex", place)
            reader.expect(">", " in complex type")
            return ComplexType(element)
        if word == "tuple":
            if reader.accept(">"):
                return TupleType(())
            elements = self.types()
            reader.expect(">", " in tuple type")
            return TupleType(tuple(elements))
        reader.fail("expected balanced angle brackets")

    def _tensor(self) -> Type:
        reader = self._reader
        if reader.accept("*"):
            token = reader.tokens[reader.index]
            if token[:1] != "x":
                reader.wrong_token("expected 'x' in dimension list")
            if token == "x":
                reader.index += 1
            else:
                reader.seek(reader.starts[reader.index] + 1)
            element = self._element()
            reader.expect(">")
            return UnrankedTensorType(element)
        shape = reader.dimension_list()
        element = self._element()
        encoding = self._parse_encoding() if reader.accept(",") else None
        reader.expect(">", " in tensor type")
        return TensorType(shape, element, encoding)

    def _element(self) -> Type:
        reader = self._reader
        place = reader.starts[reader.index]
        element = self.type()
        if isinstance(element, (TensorType, UnrankedTensorType, TupleType, FunctionType, NoneType)):
            reader.fail(f"invalid tensor element type: '{element}'", place)
        return element

    def _dialect_type(self, token: str) -> Type:
        reader = self._reader
        name, bracket, _ = token[1:].partition("<")
        dialect, dot, rest = name.partition(".")
        if not bracket and not dot:
            alias = self.aliases.get(name)
            reader.index += 1
            if alias is None:
                reader.fail(f"undefined symbol alias id '{name}'")
            return alias
        reader.index += 1
        text = _one_line(token)
        found = (
            DialectType(dialect, text[len(dialect) + 2 :])
            if dot and rest
            else DialectType("", text)
        )
        self._known[token] = found
        return found

    def types(self) -> list[Type]:
        """Read one or more types with commas between."""
        reader = self._reader
        found = [self.type()]
        while reader.accept(","):
            found.append(self.type())
        return found

    def function_type(self) -> FunctionType:
        """Read ``(i32) -> f32``."""
        reader = self._reader
        inputs = self._parenthesised()
        reader.expect("->", " in function type")
        results = self._parenthesised() if reader.peek("(") else [self.type()]
        return FunctionType(tuple(inputs), tuple(results))

    def _parenthesised(self) -> list[Type]:
        reader = self._reader
        reader.expect("(")
        if reader.accept(")"):
            return []
        found = self.types()
        reader.expect(")")
        return found


def parse_type(text: str) -> Type:
    """Return the type that a text stands for.

    Raises:
        MlirError: The text is not a type.
    """
    reader = TokenReader(SourceText(text, "-"))

    def no_encoding() -> Attribute:
        reader.fail("expected a type without encoding")

    return TypeParser(reader, no_encoding).type()


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text) if "\n" in text or "  " in text else text
