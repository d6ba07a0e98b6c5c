"""Reading types."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from emu.mlir.floats import FORMATS
from emu.mlir.text.token_reader import TokenReader
from emu.mlir.types import (
    ComplexType,
    DialectType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)

if TYPE_CHECKING:
    from emu.mlir.attributes import Attribute
    from emu.mlir.text.lexer import SourceText

__all__ = ["TypeReader", "scalar_type"]

_SIMPLE_TENSOR = re.compile(r"tensor<((?:(?:[1-9][0-9]*|0|\?)x)*)([A-Za-z][A-Za-z0-9]*)>")
_INTEGER = re.compile(r"(si|ui|i)([1-9][0-9]*)")
_BRACKETED = frozenset({"tensor", "vector", "memref", "tuple", "complex"})
_MAX_WIDTH = (1 << 24) - 1


@lru_cache(maxsize=4096)
def scalar_type(text: str) -> Type | None:
    """The type that one word names: ``f32``, ``i1``, ``index``; None for others."""
    if text in FORMATS:
        return FloatType(text)
    if match := _INTEGER.fullmatch(text):
        return IntegerType(int(match[2]), match[1][:-1])
    if text == "index":
        return IndexType()
    return NoneType() if text == "none" else None


@lru_cache(maxsize=65536)
def _simple_tensor(text: str) -> Type | None:
    """The type of ``tensor<4x?xf32>``; None where it is not that simple."""
    match = _SIMPLE_TENSOR.fullmatch(text)
    if match is None:
        return None
    dimensions, word = match.groups()
    # ``0x4xf32``: the words do not say where a hexadecimal number would begin.
    element = scalar_type(word)
    if element is None or isinstance(element, NoneType):
        return None
    if isinstance(element, IntegerType) and element.width > _MAX_WIDTH:
        return None  # read as any other type, it is an error with its place
    shape = tuple(None if d == "?" else int(d) for d in dimensions.split("x")[:-1])
    return TensorType(shape, element)


class TypeReader(TokenReader):
    """Reads types, aliases of types included."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self.type_aliases: dict[str, Type] = {}
        self._types: dict[str, Type] = {}

    def attribute(self, type_: Type | None = None) -> Attribute:
        """Read an attribute (of the layer above: encodings are attributes)."""
        raise NotImplementedError

    def type(self) -> Type:
        """Read a type."""
        found = self.optional_type()
        if found is None:
            self.wrong_token("expected non-function type")
        return found

    def optional_type(self) -> Type | None:
        """Read a type, if one comes."""
        token = self.tokens[self.index]
        found = self._types.get(token)
        if found is not None:
            self.index += 1
            return found
        if not token:
            return None
        found = _simple_tensor(token) if token[:7] == "tensor<" else scalar_type(token)
        if found is None:
            return self._compound_type(token)
        if isinstance(found, IntegerType) and found.width > _MAX_WIDTH:
            if found.width >= 1 << 32:
                self.fail("invalid integer width")
            self.fail(f"integer bitwidth is limited to {_MAX_WIDTH} bits")
        self.index += 1
        self._types[token] = found
        return found

    def _compound_type(self, token: str) -> Type | None:
        if token == "(":
            return self.function_type()
        if self._frames:
            token = self._join()
        if token[0] == "!":
            return self._dialect_type(token)
        word, bracket, _ = token.partition("<")
        if word not in _BRACKETED:
            return None
        if not bracket:
            # It is not balanced, or blanks are between.
            if self.tokens[self.index + 1] != "<":
                self.index += 1
                self.wrong_token(f"expected '<' in {word} type")
            return self._bracketed(word)
        if word in ("vector", "memref"):
            self.index += 1
            found: Type = DialectType("", _one_line(token))
        else:
            self._enter()
            found = self._bracketed(word)
            self._leave()
        self._types[token] = found
        return found

    def _bracketed(self, word: str) -> Type:
        self.index += 2
        if word == "tensor":
            return self._tensor()
        if word == "complex":
            place = self.starts[self.index]
            element = self.type()
            if not isinstance(element, (FloatType, IntegerType)):
                self.fail("invalid element type for complex", place)
            self.expect(">", " in complex type")
            return ComplexType(element)
        if word == "tuple":
            if self.accept(">"):
                return TupleType(())
            elements = self.types()
            self.expect(">", " in tuple type")
            return TupleType(tuple(elements))
        self.fail("expected balanced angle brackets")

    def _tensor(self) -> Type:
        if self.accept("*"):
            token = self.tokens[self.index]
            if token[:1] != "x":
                self.wrong_token("expected 'x' in dimension list")
            if token == "x":
                self.index += 1
            else:
                self._seek(self.starts[self.index] + 1)
            element = self._element()
            self.expect(">")
            return UnrankedTensorType(element)
        shape = self.dimension_list()
        element = self._element()
        encoding = self.attribute() if self.accept(",") else None
        self.expect(">", " in tensor type")
        return TensorType(shape, element, encoding)

    def _element(self) -> Type:
        place = self.starts[self.index]
        element = self.type()
        if isinstance(element, (TensorType, UnrankedTensorType, TupleType, FunctionType, NoneType)):
            self.fail(f"invalid tensor element type: '{element}'", place)
        return element

    def _dialect_type(self, token: str) -> Type:
        name, bracket, _ = token[1:].partition("<")
        dialect, dot, rest = name.partition(".")
        if not bracket and not dot:
            alias = self.type_aliases.get(name)
            self.index += 1
            if alias is None:
                self.fail(f"undefined symbol alias id '{name}'")
            return alias
        self.index += 1
        text = _one_line(token)
        found = (
            DialectType(dialect, text[len(dialect) + 2 :])
            if dot and rest
            else DialectType("", text)
        )
        self._types[token] = found
        return found

    def types(self) -> list[Type]:
        """Read types with commas between, one at least."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def function_type(self) -> FunctionType:
        """Read ``(i32) -> f32``."""
        inputs = self._parenthesised()
        self.expect("->", " in function type")
        results = self._parenthesised() if self.peek("(") else [self.type()]
        return FunctionType(tuple(inputs), tuple(results))

    def _parenthesised(self) -> list[Type]:
        self.expect("(")
        if self.accept(")"):
            return []
        found = self.types()
        self.expect(")")
        return found


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text) if "\n" in text or "  " in text else text
