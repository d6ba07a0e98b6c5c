"""Parser of the text of modules."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from emu.tile.ir import Function, Location, Module, Operation, Region, TileError, Value
from emu.tile.objects import Attribute
from emu.tile.ops import Code
from emu.tile.text.printer import PLAIN_NAN
from emu.tile.types import DTYPES, Pointer, ScalarType, Tile, Token, Type

T = TypeVar("T")

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<value>%(?:[0-9]+|[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*")(?:\#[0-9]+)?)
  | (?P<float>-?(?:inf\b|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))|nan\(0x[0-9a-f]+\)|nan\b)
  | (?P<tile>tile<(?:[0-9]+x)+)
  | (?P<integer>-?[0-9]+)
  | (?P<place>\#[0-9]+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<sign>->|[@(){}<>,:=])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CODES = {code.name.lower(): code for code in Code}


class ParseError(TileError):
    """Error for a text that is no module of the tile IR.

    Attributes:
        line: Where, from 1.
        column: Where, from 1.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class _Item:
    kind: str
    text: str
    start: int


def parse_module(text: str) -> Module:
    """Return the module that a text describes.

    The text's form is checked, and that values are defined before they are used; ``emu.tile.verify``
    checks the rest.

    Raises:
        ParseError: The text breaks the form; the message says where.
        TypeError: It is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, but got {type(text).__name__}")
    return Parser(text).module()


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)


class Parser:
    """Parser of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._items = list(self._split())
        self._next = 0
        self._values: dict[str, Value] = {}
        self._located: list[tuple[Operation, _Item]] = []

    def _split(self) -> list[_Item]:
        items, position = [], 0
        while position < len(self._text):
            found = _TOKEN.match(self._text, position)
            if found is None:
                character = self._text[position]
                raise self._error(f"unexpected character {character!r}", position)
            if found.lastgroup != "space":
                items.append(_Item(found.lastgroup or "", found[0], position))
            position = found.end()
        items.append(_Item("end", "the end of the text", position))
        return items

    def _error(self, message: str, position: int) -> ParseError:
        before = self._text[:position]
        return ParseError(message, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)

    # ---- items

    @property
    def _item(self) -> _Item:
        return self._items[self._next]

    def _take(self, kind: str, what: str = "") -> _Item:
        item = self._item
        if item.kind != kind:
            raise self._error(f"expected {what or f'a {kind}'}, but got {item.text}", item.start)
        self._next += 1
        return item

    def _is(self, text: str) -> bool:
        return self._item.text == text and self._item.kind in ("sign", "word")

    def _accept(self, text: str) -> bool:
        found = self._is(text)
        self._next += found
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"expected {text}, but got {self._item.text}", self._item.start)

    def _list(self, read: Callable[[], T], end: str) -> list[T]:
        """Read a comma-separated list up to a closing sign."""
        found: list[T] = []
        while not self._accept(end):
            if found:
                self._expect(",")
            found.append(read())
        return found

    def _word(self, what: str) -> str:
        if self._item.kind == "string":
            return _unquoted(self._take("string").text)
        return self._take("word", what).text

    # ---- modules and functions

    def module(self) -> Module:
        """Read the whole module."""
        module = Module()
        while self._item.kind != "end":
            if self._item.kind == "place":
                break
            start = self._item.start
            function = self._function()
            if function.name in module.functions:
                raise self._error(f"function @{function.name} is defined twice", start)
            module.functions[function.name] = function
        places = self._locations()
        for operation, item in self._located:
            operation.location = self._located_at(places, item)
        return module

    def _function(self) -> Function:
        self._values = {}
        self._expect("func")
        noinline = self._accept("noinline")
        self._expect("@")
        name = self._word("the function's name")
        arguments = self._arguments()
        results = ()
        if self._accept("->"):
            self._expect("(")
            results = tuple(self._list(self._type, ")"))  # type: ignore[assignment]
        return Function(name, self._region(arguments), results, noinline)

    def _arguments(self) -> list[Value]:
        self._expect("(")
        return self._list(self._argument, ")")

    def _argument(self) -> Value:
        item = self._take("value", "an argument")
        self._expect(":")
        return self._define(item, Value(self._type()))

    def _region(self, arguments: list[Value]) -> Region:
        """Read operations; what they define is forgotten at the end."""
        outer = self._values
        region = Region(arguments)
        self._expect("{")
        while not self._accept("}"):
            region.operations.append(self._operation())
        self._values = outer
        return region

    # ---- operations

    def _operation(self) -> Operation:
        results: list[_Item] = []
        if self._item.kind == "value":
            results = self._list(lambda: self._take("value"), "=")
        item = self._take("word", "an operation")
        code = _CODES.get(item.text)
        if code is None:
            raise self._error(f"there is no operation {item.text}", item.start)
        operands = self._operands()
        attributes = self._attributes() if self._is("{") else {}
        types = self._result_types(results)
        regions = []
        outer = self._values
        while self._is("("):
            self._values = dict(outer)
            regions.append(self._region(self._arguments()))
            self._values = outer
        operation = Operation(code, operands, types, attributes, regions)
        if self._accept("at"):
            self._located.append((operation, self._take("place", "a location")))
        for result, value in zip(results, operation.results, strict=True):
            self._define(result, value)
        return operation

    def _operands(self) -> list[Value]:
        found: list[Value] = []
        while self._item.kind == "value" and not self._begins_operation():
            found.append(self._use(self._take("value")))
            if not self._accept(","):
                break
        return found

    def _begins_operation(self) -> bool:
        """Return whether the value here is a result: commas and values, then an equals sign."""
        at = self._next
        while self._items[at].kind == "value":
            at += 1
            if self._items[at].text != ",":
                break
            at += 1
        return self._items[at].text == "="

    def _result_types(self, results: list[_Item]) -> list[Type]:
        if not results:
            return []
        self._expect(":")
        types = [self._type()]
        while len(types) < len(results):
            self._expect(",")
            types.append(self._type())
        return types

    def _define(self, item: _Item, value: Value) -> Value:
        if item.text in self._values:
            raise self._error(f"{item.text} is defined twice", item.start)
        name = re.sub(r"#[0-9]+\Z", "", item.text[1:])
        if name.startswith('"'):
            value.name = _unquoted(name)
        elif not name.isdigit():
            value.name = name
        self._values[item.text] = value
        return value

    def _use(self, item: _Item) -> Value:
        if item.text not in self._values:
            raise self._error(f"{item.text} is not defined here", item.start)
        return self._values[item.text]

    # ---- types and attributes

    def _type(self) -> Type:
        if self._item.kind == "tile":
            text = self._take("tile").text
            shape = tuple(int(n) for n in text[len("tile<") :].split("x")[:-1])
            element = self._scalar()
            self._expect(">")
            return Tile(shape, element)
        if self._accept("token"):
            return Token()
        return self._scalar()

    def _scalar(self) -> ScalarType:
        item = self._take("word", "a type")
        if item.text == "ptr":
            self._expect("<")
            element = self._scalar()
            self._expect(">")
            return Pointer(element)
        if item.text not in DTYPES:
            raise self._error(f"there is no type {item.text}", item.start)
        return DTYPES[item.text]

    def _attributes(self) -> dict[str, Attribute]:
        self._expect("{")
        return dict(self._list(self._attribute, "}"))

    def _attribute(self) -> tuple[str, Attribute]:
        name = self._word("an attribute's name")
        self._expect("=")
        return name, self._constant()

    def _constant(self) -> Attribute:
        item = self._item
        if self._accept("("):
            return tuple(self._list(self._constant, ")"))
        if item.text in ("true", "false"):
            self._next += 1
            return item.text == "true"
        self._next += 1
        if item.kind == "integer":
            return int(item.text)
        if item.kind == "string":
            return _unquoted(item.text)
        if item.kind == "float":
            return _float(item.text)
        raise self._error(f"expected an attribute's value, but got {item.text}", item.start)

    # ---- locations

    def _locations(self) -> dict[str, Location]:
        places: dict[str, Location] = {}
        while self._item.kind != "end":
            name = self._take("place", "a function or a location")
            self._expect("=")
            file = _unquoted(self._take("string", "a file's name").text)
            line, column = self._number(), self._number()
            function = self._word("a function's name") if self._accept("in") else ""
            caller = None
            if self._accept("called"):
                self._expect("at")
                caller = self._located_at(places, self._take("place", "a location"))
            places[name.text] = Location(file, line, column, function, caller)
        return places

    def _number(self) -> int:
        self._expect(":")
        return int(self._take("integer", "a number").text)

    def _located_at(self, places: dict[str, Location], item: _Item) -> Location:
        if item.text not in places:
            raise self._error(f"there is no location {item.text}", item.start)
        return places[item.text]


def _float(text: str) -> float:
    if not text.startswith("nan"):
        return float(text)
    bits = int(text[4:-1], 16) if text != "nan" else PLAIN_NAN
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)
