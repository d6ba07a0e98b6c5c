"""Operations on lines that differ in the names of values only.

The layers of a model repeat the same few lines: ``%7 = stablehlo.add %5, %6 : tensor<8xf32>``, with
other names each time. The lexer keeps a line that seems to hold one operation in one token. The first
such line is split and read as any text; those that are like it are made from what it gave. This is
why a module is read several times as fast as its text could be split into tokens.

A line is kept as a pattern only if reading it has shown that it holds just one operation, whose
regions (those of ``reduce … applies stablehlo.add``) use nothing from outside, and that the names in it
are those of its result and its operands. So it may say anything; two lines with the same words around
their names mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from emu.mlir.assembly import Operand
from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import FileLoc, Place
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.text.lexer import SourceText
from emu.mlir.text.scopes import Scopes
from emu.mlir.types import Type

_NAME = re.compile(r"(%(?:[0-9]+|[A-Za-z_$.\-][\w$.\-]*+)(?:\#[0-9]+)?)", re.ASCII)


class Line(NamedTuple):
    """A line that seems to hold one operation.

    Attributes:
        words: What stands between the names of values, and whether the alias of a location follows.
        names: The names, that of the result first.
        text: The line, without the alias of a location at its end.
        start: Its offset.
        end: Offset of its end.
    """

    words: str
    names: list[str]
    text: str
    start: int
    end: int


class _Pattern(NamedTuple):
    name: str
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    regions: list[Region]
    order: tuple[int, ...]
    distance: int  # of the operation's location from the end of the result's name


def split_line(token: str, start: int) -> Line:
    """Take a line apart."""
    end = start + len(token)
    alias = ""
    if token[-1] == ")":
        location = token.rfind(" loc(#")
        if location > 0 and _ALIAS.match(token, location):
            token = token[:location]
            alias = _WITH_ALIAS
    parts = _NAME.split(token)
    # Joined by what no line holds, or another "%" would pass for a name.
    return Line(alias + "\n".join(parts[::2]), parts[1::2], token, start, end)


class SimilarLines:
    """Patterns of the lines that were read, by their words.

    Args:
        source: The text.
        scopes: Names of values.

    Attributes:
        made: Operations that were made from a pattern.
    """

    def __init__(self, source: SourceText, scopes: Scopes) -> None:
        self._source = source
        self._scopes = scopes
        self._patterns: dict[str, _Pattern] = {}
        self.made: set[Operation] = set()

    def is_known(self, line: Line) -> bool:
        """Return whether a line like this one was read before."""
        return line.words in self._patterns

    def read(self, line: Line) -> Operation | None:
        """Make the operation of a line, and name its result; None where no line like it is known."""
        pattern = self._patterns.get(line.words)
        if pattern is None:
            return None
        names = line.names
        known = self._scopes.values
        operands: list[Value] = []
        for number, type_ in zip(pattern.order, pattern.operand_types, strict=True):
            entries = known.get(names[number])
            value = entries[0] if entries is not None else None
            if value is None or value.type is not type_:
                value = self._scopes.resolve(_operand(line, number), type_)
            operands.append(value)
        place = (self._source, line.start + len(names[0]) + pattern.distance)
        op = Operation(
            pattern.name,
            operands,
            pattern.result_types,
            properties=pattern.properties,
            attributes=pattern.attributes,
            regions=[copy_at(region, place) for region in pattern.regions],
            location=place,
        )
        self._scopes.define(names[0], op.results, line.start)
        self.made.add(op)
        return op

    def learn(self, line: Line, op: Operation, places: Sequence[int]) -> None:
        """Keep a line as a pattern, if it is one.

        Args:
            line: The line, which held just this operation.
            op: The operation.
            places: Offsets of the names that were looked up while it was read.
        """
        found = [line.start + match.start() for match in _NAME.finditer(line.text)]
        if (
            found[1:] != sorted(places)
            or len(places) != len(op._operands)
            or not line.words.removeprefix(_WITH_ALIAS).startswith("\n = ")
            or op.successors
            or len(op.results) != 1
            or "//" in line.words
            or " loc(" in line.words
            or not line.words.isascii()
            or not _is_closed(op)
        ):
            return
        own, here = op.location, self._source.location(line.start)
        distance = 0
        if isinstance(own, FileLoc) and (own.file, own.line) == (here.file, here.line):
            distance = own.column - here.column - len(line.names[0])
        elif op.regions or not line.words.startswith(_WITH_ALIAS):
            return
        self._patterns[line.words] = _Pattern(
            op.name,
            tuple([value.type for value in op._operands]),
            tuple([result.type for result in op.results]),
            dict(op.properties),
            dict(op.attributes),
            op.regions,
            tuple([found.index(place) for place in places]),
            distance,
        )


_ALIAS = re.compile(r" loc\(#loc[0-9]*\)\Z", re.ASCII)
_WITH_ALIAS = "loc"  # a line begins with a name


def _is_closed(op: Operation) -> bool:
    """Return whether the operations inside use only values from inside, and are where it is."""
    arguments = [value for block in op.walk_blocks() for value in block.arguments]
    if any(value.location != op.location for value in arguments):
        return False
    inside: set[Value] = set(arguments)
    for each in op.walk():
        if each is not op:
            if (
                each.attributes  # which may be valid at one place only
                or each.location != op.location
                or not inside.issuperset(each._operands)
            ):
                return False
            inside.update(each.results)
    return True


def copy_at(region: Region, place: Place) -> Region:
    """Copy a region; all that is in the copy gets another location."""
    copy = region.clone({})
    text, offset = place
    for block in copy.blocks:
        for argument in block.arguments:
            argument.location = text.location(offset)
        for op in block:
            op._location = place
    return copy


def _operand(line: Line, number: int) -> Operand:
    """Return a name of a line as the parser reads operands."""
    name, _, result = line.names[number].partition("#")
    places = [match.start() for match in _NAME.finditer(line.text)]
    return Operand(name, int(result or 0), line.start + places[number])
