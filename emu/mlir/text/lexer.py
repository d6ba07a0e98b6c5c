"""Lexer: from text to tokens, fast.

One regular expression finds all tokens. The parser works on two parallel lists, the tokens' texts
and their offsets, and recognises the kind of a token by its first character. Lines and columns are
computed only when they are needed.

There are two ways to split a text. *Coarse* tokens, which the parser reads, have bracketed types and
attributes (``tensor<4xf32>``, ``dense<[1, 2]>``, ``#sdy.sharding<@mesh, [{"x"}]>``) in one piece, so
that the parser can look them up in a table of those it has met. Only a new one is split into *fine*
tokens (MLIR's own) and parsed. A bracketed text that is not balanced is split finely at once, and
gives MLIR's errors.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from emu.mlir.diagnostics import Diagnostic, FileLoc, Location

_LINE_LENGTH = 400  # characters of a source line that an error shows
_MESSAGE_LENGTH = 2000
_MOST_DIAGNOSTICS = 100

_STRING = r'"(?:[^"\\\n\v\f]|\\.)*+"'
_NESTED = r"(?:[^<>\"\-/]++|->|-|/(?!/)|" + _STRING + "|<@>)*+"
_BALANCED = _NESTED
# A regular expression cannot count brackets: nesting is written out, six levels deep. What is nested
# deeper is split finely, which is slower but gives the same.
for _ in range(5):
    _BALANCED = _BALANCED.replace("@", _NESTED)
_BALANCED = "<" + _BALANCED.replace("|<@>", "") + ">"

_IDENTIFIER = r"[A-Za-z_][\w$.]*+"
_PLAIN = (
    r"(?:0x[0-9a-fA-F]+|[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+)"
    r"|->|::|\{-\#|\#-\}|\.\.\.|//[^\n]*|/|"
    + _STRING
    + r"|@(?:[A-Za-z_][\w$.]*+|"
    + _STRING
    + r")|[#!^](?:[0-9]+|[A-Za-z_$.\-][\w$.\-]*+)|\S"
)
_VALUE = r"%(?:[0-9]+|[A-Za-z_$.\-][\w$.\-]*+)"
_COARSE = re.compile(
    rf"{_VALUE}|::|[,)(:]"
    rf"|(?:tensor|dense|array|complex|tuple|vector|memref|dense_resource){_BALANCED}"
    r"|affine_(?:map|set)<(?:->|[<>]=|[^<>\"])*+>"
    r"|loc\(\#loc[0-9]*\)"
    rf"|{_IDENTIFIER}"
    rf"|[#!][A-Za-z_][\w$.]*+{_BALANCED}"
    rf"|{_PLAIN}",
    re.ASCII,
)
_FINE = re.compile(rf"{_VALUE}|{_IDENTIFIER}|{_PLAIN}", re.ASCII)


def _scan(pattern: re.Pattern[str], text: str, start: int, end: int) -> tuple[list[str], list[int]]:
    matches = list(pattern.finditer(text, start, end))
    if text.find("//", start, end) >= 0:
        matches = [m for m in matches if not m[0].startswith("//")]
    tokens = [m[0] for m in matches]
    starts = [m.start() for m in matches]
    # The end is an empty token: no comparison with a punctuation or a first
    # character succeeds there.
    tokens.append("")
    starts.append(end)
    return tokens, starts


def coarse_tokens(text: str) -> tuple[list[str], list[int]]:
    """Split a text into coarse tokens; return them and their offsets."""
    return _scan(_COARSE, text, 0, len(text))


def coarse_token(text: str, start: int, end: int) -> str:
    """Return the coarse token that begins at an offset."""
    match = _COARSE.match(text, start, end)
    return match[0] if match is not None else ""


def fine_tokens(text: str, start: int, end: int) -> tuple[list[str], list[int]]:
    """Split a part of a text into MLIR's tokens; return them and their offsets."""
    return _scan(_FINE, text, start, end)


class SourceText:
    """A text with the name of its file and an index of its lines."""

    __slots__ = ("_line_starts", "file", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        starts = [0]
        starts.extend(m.end() for m in re.finditer("\n", text))
        self._line_starts = starts

    def location(self, offset: int) -> FileLoc:
        """Return the location of a character; columns count bytes, as MLIR's do."""
        line = bisect_right(self._line_starts, offset)
        start = self._line_starts[line - 1]
        column = offset - start
        piece = self.text[start:offset]
        if not piece.isascii():
            column = len(piece.encode("utf-8", "surrogateescape"))
        return FileLoc(self.file, line, column + 1)

    def line(self, number: int) -> str | None:
        """Return a line (counted from 1) without its end, or None if there is none."""
        if not 1 <= number <= len(self._line_starts):
            return None
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


def render(diagnostic: Diagnostic, source: SourceText | None = None) -> str:
    """Return a diagnostic as compilers print it: location, message, line, caret, notes.

    Of long lines, only what is near the caret is shown; long messages lose their middle.
    """
    parts = [_render_one(diagnostic, source)]
    parts.extend(_render_one(note, source) for note in diagnostic.notes[:_MOST_DIAGNOSTICS])
    return "\n".join(parts)


def render_all(diagnostics: Sequence[Diagnostic], source: SourceText | None = None) -> str:
    """Return diagnostics as compilers print them; of very many, the first ones and a count."""
    parts = [render(each, source) for each in diagnostics[:_MOST_DIAGNOSTICS]]
    more = len(diagnostics) - len(parts)
    return "\n".join([*parts, f"… and {more} more"] if more else parts)


def _render_one(diagnostic: Diagnostic, source: SourceText | None) -> str:
    place = _file_location(diagnostic.location)
    head = f"{diagnostic.severity.value}: {_shortened(diagnostic.message)}"
    if place is None:
        return f"loc({diagnostic.location}): {head}"
    text = f"{place.file}:{place.line}:{place.column}: {head}"
    if source is None or place.file != source.file:
        return text
    line = source.line(place.line)
    if line is None:
        return text
    before = line.encode("utf-8", "surrogateescape")[: place.column - 1].decode("utf-8", "replace")
    shown, start = line, max(0, len(before) - _LINE_LENGTH // 2)
    if len(line) > _LINE_LENGTH:
        shown = line[start : start + _LINE_LENGTH]
        before = before[start:]
        if start:
            shown, before = f"…{shown}", f" {before}"
        if start + _LINE_LENGTH < len(line):
            shown += "…"
    # Tabs before the caret are kept, so that both lines are indented alike.
    blank = re.sub(r"[^\t]", " ", before)
    return f"{text}\n{shown}\n{blank}^"


def _shortened(message: str) -> str:
    if len(message) <= _MESSAGE_LENGTH:
        return message
    half = _MESSAGE_LENGTH // 2
    return f"{message[:half]}…{message[-half:]}"


def _file_location(location: Location) -> FileLoc | None:
    return location if isinstance(location, FileLoc) else None
