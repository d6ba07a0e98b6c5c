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
from emu.mlir.entries import Entries
from emu.mlir.ir import Operation, OpResult, Region, Value
from emu.mlir.registry import definition
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
    """What the operations of similar lines have in common.

    Attributes:
        name: Their name.
        operands: Number among the pieces of the line, and type, of each operand.
        result_type: The type of the result.
        properties: Inherent attributes.
        attributes: Discardable attributes.
        regions: Regions, which are copied.
        distance: Of the operation's location from the end of the result's name.
        is_valid_alike: Whether one of them is as valid as the others.
    """

    name: str
    operands: tuple[tuple[int, Type], ...]
    result_type: Type
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    regions: list[Region]
    distance: int
    is_valid_alike: bool


def _without_alias(token: str) -> str:
    """Return a line without the alias of a location at its end."""
    head, found, number = token.rpartition(" loc(#loc")
    number = number[:-1]
    return head if found and (not number or (number.isdigit() and number.isascii())) else token


def _split(token: str) -> tuple[str, list[str], str]:
    """Return the words of a line, its pieces (each second one is a name), and it without an alias."""
    text = _without_alias(token) if token[-1] == ")" else token
    pieces = _NAME.split(text)
    # Joined by what no line holds, or another "%" would pass for a name.
    words = "\n".join(pieces[::2])
    return (words if text is token else _WITH_ALIAS + words), pieces, text


def split_line(token: str, start: int) -> Line:
    """Take a line apart."""
    words, pieces, text = _split(token)
    return Line(words, pieces[1::2], text, start, start + len(token))


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

    def read(self, token: str, start: int) -> tuple[Operation, int] | None:
        """Make the operation of a line, and name its result; None where no line like it is known.

        Args:
            token: The line.
            start: Its offset.

        Returns:
            The operation, and the length of the line without the alias of a location at its end.
        """
        words, pieces, text = _split(token)
        pattern = self._patterns.get(words)
        if pattern is None:
            return None
        known = self._scopes.values
        operands: list[Value] = []
        for number, type_ in pattern.operands:
            entries = known.get(pieces[number])
            value = entries[0] if entries is not None else None
            if value is None or value.type is not type_:
                value = self._scopes.resolve(_operand(text, start, number // 2), type_)
            operands.append(value)
        name = pieces[1]
        place = (self._source, start + len(name) + pattern.distance)
        op = _make(pattern, operands, place)
        self._scopes.define(name, op.results, start)
        if pattern.is_valid_alike:
            self.made.add(op)
        return op, len(text)

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
        distance = self._distance(line, op)
        if distance is None:
            return
        known = definition(op.name)
        self._patterns[line.words] = _Pattern(
            op.name,
            tuple(
                [
                    (2 * found.index(place) + 1, value.type)
                    for place, value in zip(places, op._operands, strict=True)
                ]
            ),
            op.results[0].type,
            dict(op.properties),
            dict(op.attributes),
            op.regions,
            distance,
            # Attributes, and those that read around, may be valid at one place only.
            not (known.terminator or known.symbol or known.reads_around or op.attributes)
            and bool(known.name),
        )

    def _distance(self, line: Line, op: Operation) -> int | None:
        """Return how far an operation's location is behind the result's name; None if that varies."""
        behind = line.start + len(line.names[0])
        own = op._location
        if isinstance(own, tuple):
            return own[1] - behind
        here = self._source.location(line.start)
        if isinstance(own, FileLoc) and (own.file, own.line) == (here.file, here.line):
            return own.column - here.column - len(line.names[0])
        return None if op.regions or not line.words.startswith(_WITH_ALIAS) else 0


def _make(pattern: _Pattern, operands: list[Value], place: Place) -> Operation:
    """Return what ``Operation(…)`` returns, in half the time: most of a text is made here."""
    op = object.__new__(Operation)
    op.name = pattern.name
    op._location = place
    op.changed = True
    inherent, discardable = Entries(pattern.properties), Entries(pattern.attributes)
    inherent.owner = discardable.owner = op
    op.properties, op.attributes = inherent, discardable
    op.results = [OpResult(pattern.result_type, op, 0)]
    op.regions = []
    for region in pattern.regions:
        op.add_region(copy_at(region, place))
    op.successors = []
    op.parent = op._previous = op._next = op.resources = None
    op._order = 0
    op._operands = operands
    for index, value in enumerate(operands):
        value._uses[op, index] = None
    return op


_WITH_ALIAS = "loc"  # a line begins with a name


def _is_closed(op: Operation) -> bool:
    """Return whether the operations inside use only values from inside, and are where it is."""
    arguments = [value for block in op.walk_blocks() for value in block.arguments]
    if any(value._location != op._location for value in arguments):
        return False
    inside: set[Value] = set(arguments)
    for each in op.walk():
        if each is not op:
            if (
                each.attributes  # which may be valid at one place only
                or each._location != op._location
                or not inside.issuperset(each._operands)
            ):
                return False
            inside.update(each.results)
    return True


def copy_at(region: Region, place: Place) -> Region:
    """Copy a region; all that is in the copy gets another location."""
    copy = region.clone({})
    for block in copy.blocks:
        for argument in block.arguments:
            argument._location = place
        for op in block:
            op._location = place
    return copy


def _operand(text: str, start: int, number: int) -> Operand:
    """Return a name of a line as the parser reads operands."""
    match = list(_NAME.finditer(text))[number]
    name, _, result = match[0].partition("#")
    return Operand(name, int(result or 0), start + match.start())
