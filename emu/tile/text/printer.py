"""Printer of modules as text."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable

from emu.tile.ir import Function, Location, Module, Operation, Region, Value, checked_module
from emu.tile.types import Type

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
PLAIN_NAN = 0x7FF8000000000000
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def print_module(module: Module) -> str:
    """Return a module as text, which ``parse_module`` reads back.

    Raises:
        TypeError: An attribute is neither a truth value, number or string nor a tuple of these.
    """
    printer = Printer()
    printer.module(checked_module(module))
    return "\n".join(printer.lines) + "\n"


class Printer:
    """Printer of one module.

    Attributes:
        lines: Of text, so far.
        places: For each operation, the number of the line where it begins.
    """

    def __init__(self, *, strict: bool = True) -> None:
        """Begin.

        Args:
            strict: Whether attributes that cannot be read again are an error.
        """
        self._strict = strict
        self.lines: list[str] = []
        self.places: dict[Operation, int] = {}
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}
        self._locations: dict[Location, int] = {}

    def module(self, module: Module) -> None:
        """Write all functions and the locations."""
        for function in module.functions.values():
            self.function(function)
        for location, number in self._locations.items():
            self.lines.append(f"#{number} = {self._location(location)}")

    def function(self, function: Function) -> None:
        """Write one function; names of values begin anew."""
        self._names, self._used = {}, {}
        results = f" -> ({_types(function.results)})" if function.results else ""
        arguments = self._arguments(function.body)
        kind = "func noinline" if function.noinline else "func"
        self.lines.append(f"{kind} @{_word(function.name)}({arguments}){results} {{")
        self._body(function.body, "  ")
        self.lines.append("}")

    def _arguments(self, region: Region) -> str:
        return ", ".join(f"{self.name(a)}: {a.type}" for a in region.arguments)

    def _body(self, region: Region, indent: str) -> None:
        for operation in region.operations:
            self._operation(operation, indent)

    def _operation(self, operation: Operation, indent: str) -> None:
        self.places[operation] = len(self.lines)
        operands = ", ".join(self.name(v) for v in operation.operands)
        results = ", ".join(self.name(v) for v in operation.results)
        text = f"{indent}{results + ' = ' if results else ''}{operation.code.name.lower()}"
        text += f" {operands}" if operands else ""
        text += f" {self._attributes(operation)}" if operation.attributes else ""
        text += f" : {_types(v.type for v in operation.results)}" if results else ""
        for region in operation.regions:
            self.lines.append(f"{text} ({self._arguments(region)}) {{")
            self._body(region, indent + "  ")
            text = f"{indent}}}"
        if operation.location is not None:
            text += f" at #{self._number(operation.location)}"
        self.lines.append(text)

    def _attributes(self, operation: Operation) -> str:
        write = attribute if self._strict else _any_attribute
        pairs = (f"{_word(k)} = {write(v)}" for k, v in operation.attributes.items())
        return "{" + ", ".join(pairs) + "}"

    def name(self, value: Value) -> str:
        """Return the name of a value, with its percent sign."""
        if value not in self._names:
            # Names need not be unique. The second of a name gets #1, and values without one share one count.
            count = self._used.get(value.name, 0)
            self._used[value.name] = count + 1
            name = f"{_word(value.name)}#{count}" if count else _word(value.name)
            self._names[value] = f"%{name if value.name else count}"
        return self._names[value]

    def _number(self, location: Location) -> int:
        if location not in self._locations:
            if location.caller is not None:  # first, so that the table only refers back
                self._number(location.caller)
            self._locations[location] = len(self._locations)
        return self._locations[location]

    def _location(self, location: Location) -> str:
        text = f"{quoted(location.file)}:{location.line}:{location.column}"
        text += f" in {quoted(location.function)}" if location.function else ""
        if location.caller is not None:
            text += f" called at #{self._locations[location.caller]}"
        return text


def quoted(text: str) -> str:
    """Return a string in quotation marks."""
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'


def _word(name: str) -> str:
    return name if IDENTIFIER.match(name) else quoted(name)


def _types(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


def attribute(value: object) -> str:
    """Return an attribute's value as text."""
    if isinstance(value, bool):  # before int, which it is as well
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(attribute, value)) + ")"
    raise TypeError(f"an attribute must be a number, a string or a tuple, but got {value!r}")


def _any_attribute(value: object) -> str:
    try:
        return attribute(value)
    except TypeError:
        return repr(value)


def _float(value: float) -> str:
    if not math.isnan(value):
        return repr(value)
    # The payload of a NaN survives printing and parsing: constants keep their bits.
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return "nan" if bits == PLAIN_NAN else f"nan({bits:#x})"
