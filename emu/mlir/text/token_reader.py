"""Lowest layer of the parser: the place in the tokens, words, literals and errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from emu.mlir.assembly import Operand
from emu.mlir.diagnostics import Diagnostic, MlirError, Place, Severity
from emu.mlir.literals import integer_of, unescape
from emu.mlir.text.lexer import (
    SourceText,
    coarse_token,
    coarse_tokens,
    fine_tokens,
    is_line,
    line_tokens,
    render,
)

_T = TypeVar("_T")

INT64_MAX = (1 << 63) - 1
"""Largest size of a dimension."""

_MOST_RESULTS = 1 << 32
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_MALFORMED = {
    '"': ("expected '\"' in string literal", 0),
    "@": ("@ identifier expected to start with letter or '_'", 1),
    "%": ("invalid SSA name", 0),
    "^": ("invalid block name", 0),
    "!": ("invalid type identifier", 0),
    "#": ("invalid attribute name", 0),
}
_DIMENSION = re.compile(r"\s*(?:(\?)|([0-9]+))\s*x")


class TokenReader:
    """Reader of tokens: ``(``, ``keyword``, ``12``, ``"text"``, ``@symbol``, ``%operand``.

    The parsers of types, attributes and operations share one, and with it the place in the text.

    Attributes:
        source: The text.
        tokens: Tokens that are being read; the last one is empty.
        starts: Their offsets in the text.
        index: Number of the next token.
        frames: Outer tokens, where the text inside a bracketed token is being read.
        custom_op: Name of the operation whose pretty form is being read.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.tokens, self.starts = line_tokens(source.text)
        self.index = 0
        self.custom_op: str | None = None
        self.frames: list[tuple[list[str], list[int], int]] = []

    # Errors

    def here(self) -> Place:
        """Return the place of the next token."""
        return self.source, self.starts[self.index]

    def error(self, message: str, at: Place | int | None = None) -> NoReturn:
        """Raise an error about an operation's own form, whose name the message begins with.

        Args:
            message: The error text.
            at: A place or an offset. Default: the next token.
        """
        self.fail(self.in_operation(message), at)

    def in_operation(self, message: str) -> str:
        """Return a message with the operation in front whose pretty form is being read.

        Inside ``#dialect.attribute<…>`` MLIR does not name the operation.
        """
        return message if self.custom_op is None else f"custom op '{self.custom_op}' {message}"

    def fail(
        self,
        message: str,
        at: Place | int | None = None,
        *,
        notes: tuple[tuple[str, int], ...] = (),
    ) -> NoReturn:
        """Raise an error about the next token or about another place.

        Args:
            message: The error text.
            at: A place or an offset. Default: the next token.
            notes: More messages with the offsets that they are about.
        """
        if self.tokens[self.index] in _MALFORMED:
            message, at = self._malformed()
        if at is None:
            at = self.starts[self.index]
            # An error at the end is reported one character before it.
            if not self.tokens[self.index] and not self.frames:
                at = max(at - 1, 0)
        place = self.source.location(at if isinstance(at, int) else at[1])
        found = Diagnostic(Severity.ERROR, place, message)
        for text, offset in notes:
            found.note(text, self.source.location(offset))
        raise MlirError(render(found, self.source), [found])

    def _malformed(self) -> tuple[str, int]:
        """Return the message and the offset of a character that begins no token."""
        token, start = self.tokens[self.index], self.starts[self.index]
        message, distance = _MALFORMED[token]
        if token == '"':
            end = self.source.text.find("\n", start)
            return message, len(self.source.text) if end < 0 else end
        return message, start + distance

    def wrong_token(self, message: str) -> NoReturn:
        """Raise an error about a token that is missing before the next one.

        It is reported at the end of the token before, be that on a line above.
        """
        start = self.starts[self.index]
        if not self.tokens[self.index] and not self.frames:
            start = max(start - 1, 0)
        text = self.source.text
        line_start = text.rfind("\n", 0, start) + 1
        code = text[line_start:start].rstrip(" \t")
        while not code and line_start:
            end = line_start - 1
            line_start = text.rfind("\n", 0, end) + 1
            line = text[line_start:end]
            comment = line.find("//")
            code = (line if comment < 0 else line[:comment]).rstrip(" \t\r")
        self.fail(message, line_start + len(code) if code else start)

    # Tokens of a line, and fine tokens of a coarse one

    def split_lines(self, count: int, is_kept: Callable[[str, int], bool]) -> None:
        """Split the next token and those of the following ones that are lines and not to be kept.

        Args:
            count: How many tokens to look at. Each call moves all tokens behind, so one by one would
                cost the square of their number.
            is_kept: Whether a line, given its offset too, stays one token.
        """
        tokens: list[str] = []
        starts: list[int] = []
        first, end = self.index, min(self.index + count, len(self.tokens) - 1)
        for index in range(first, end):
            token, start = self.tokens[index], self.starts[index]
            if token[0] == "%" and is_line(token) and not (index > first and is_kept(token, start)):
                parts, places = coarse_tokens(self.source.text, start, start + len(token))
                tokens += parts[:-1]
                starts += places[:-1]
            else:
                tokens.append(token)
                starts.append(start)
        self.tokens[first:end] = tokens
        self.starts[first:end] = starts

    def split_line(self) -> None:
        """Split the next token if it is a line."""
        token = self.tokens[self.index]
        if token[:1] == "%" and is_line(token):
            self.split_lines(1, lambda _token, _start: True)

    def enter(self) -> None:
        """Start to read inside the next token, which is a bracketed one."""
        token, start = self.tokens[self.index], self.starts[self.index]
        self.frames.append((self.tokens, self.starts, self.index))
        self.tokens, self.starts = fine_tokens(self.source.text, start, start + len(token))
        self.index = 0

    def leave(self) -> None:
        """Continue behind the bracketed token."""
        if self.tokens[self.index]:
            self.wrong_token("unexpected token")
        self.tokens, self.starts, self.index = self.frames.pop()
        self.index += 1

    def join(self) -> str:
        """Join the fine tokens of a bracketed one that comes next; return the next token.

        Inside brackets all tokens are fine ones.
        """
        index, starts = self.index, self.starts
        start = starts[index]
        if self.tokens[index + 1 : index + 2] != ["<"]:
            return self.tokens[index]
        token = coarse_token(self.source.text, start, starts[-1])
        end = index
        while starts[end] < start + len(token) and end < len(starts) - 1:
            end += 1
        self.tokens[index:end] = [token]
        del starts[index + 1 : end]
        return token

    def seek(self, offset: int) -> None:
        """Go to an offset of the text, which may lie in the middle of a token."""
        index = self.index
        starts = self.starts
        while starts[index] < offset and index < len(starts) - 1:
            index += 1
        if starts[index] != offset:
            # ``0xcomplex`` is split as ``0xc`` and ``omplex``: the rest of the word belongs to it.
            index += self.tokens[index][:1].isalpha() and index < len(starts) - 1
            end = starts[index]
            tokens, places = fine_tokens(self.source.text, offset, end)
            self.tokens[self.index : index] = tokens[:-1]
            self.starts[self.index : index] = places[:-1]
        else:
            self.index = index

    # Punctuation and keywords

    def peek(self, punctuation: str) -> bool:
        """Return whether the next token is this one."""
        return self.tokens[self.index] == punctuation

    def accept(self, punctuation: str) -> bool:
        """Read this token if it comes next; return whether it did."""
        if self.tokens[self.index] == punctuation:
            self.index += 1
            return True
        return False

    def expect(self, punctuation: str, context: str = "") -> None:
        """Read this token; raise an error where another one comes."""
        if self.tokens[self.index] != punctuation:
            self.wrong_token(f"expected '{punctuation}'{context}")
        self.index += 1

    peek_keyword = peek
    accept_keyword = accept

    def expect_keyword(self, keyword: str, context: str = "") -> None:
        """Read this keyword; raise an error where another token comes."""
        if self.tokens[self.index] != keyword:
            self.error(f"expected '{keyword}'{context}")
        self.index += 1

    def optional_keyword(self) -> str | None:
        """Read a bare identifier if one comes."""
        token = self.tokens[self.index]
        if token and token[0] in _WORD and token[-1] not in ">)":
            self.index += 1
            return token
        return None

    def keyword(self, context: str = "") -> str:
        """Read any bare identifier."""
        token = self.optional_keyword()
        if token is None:
            self.error(f"expected valid keyword{context}")
        return token

    # Literals

    def optional_integer(self) -> int | None:
        """Read an integer with an optional minus sign if one comes."""
        token = self.tokens[self.index]
        negative = token == "-"
        if negative:
            token = self.tokens[self.index + 1]
        if not token or token[0] not in _DIGITS or ("." in token):
            return None
        self.index += 2 if negative else 1
        value = integer_of(token)
        return -value if negative else value

    def integer(self) -> int:
        """Read an integer of 64 bits."""
        place = self.starts[self.index]
        value = self.optional_integer()
        if value is None:
            self.error("expected integer value")
        if not -(1 << 63) <= value < 1 << 63:
            self.error("integer value too large", place)
        return value

    def optional_string(self) -> str | None:
        """Read a string literal if one comes."""
        token = self.tokens[self.index]
        if token[:1] != '"' or len(token) < 2:
            return None
        self.index += 1
        return unescape(token)

    def string(self) -> str:
        """Read a string literal."""
        value = self.optional_string()
        if value is None:
            self.error("expected string")
        return value

    def optional_symbol(self) -> str | None:
        """Read ``@name`` if it comes; return the name."""
        token = self.tokens[self.index]
        if token[:1] != "@" or len(token) < 2:
            return None
        self.index += 1
        return unescape(token[1:]) if token[1] == '"' else token[1:]

    def symbol(self) -> str:
        """Read ``@name``; return the name."""
        name = self.optional_symbol()
        if name is None:
            self.error("expected valid '@'-identifier for symbol name")
        return name

    # Lists

    def comma_separated(self, open_: str, close: str, parse_one: Callable[[], _T]) -> list[_T]:
        """Read items with commas between; brackets "" for none."""
        if open_:
            self.expect(open_)
        items: list[_T] = []
        if close and self.accept(close):
            return items
        items.append(parse_one())
        while self.accept(","):
            items.append(parse_one())
        if close:
            self.expect(close)
        return items

    def dimension_list(self, *, allow_dynamic: bool = True) -> tuple[int | None, ...]:
        """Read ``4x?x``, up to what follows the last ``x``; None is a dynamic size."""
        dimensions: list[int | None] = []
        offset = self.starts[self.index]
        while (match := _DIMENSION.match(self.source.text, offset)) is not None:
            if match[1] and not allow_dynamic:
                self.fail("expected static shape", offset)
            size = None if match[1] else integer_of(match[2])
            if size is not None and size > INT64_MAX:
                self.fail("invalid dimension", match.start(2))
            dimensions.append(size)
            offset = match.end()
        if dimensions:
            self.seek(offset)
        return tuple(dimensions)

    # Operands

    def peek_operand(self) -> bool:
        """Return whether ``%…`` comes."""
        return self.tokens[self.index][:1] == "%"

    def optional_operand(self) -> Operand | None:
        """Read ``%x`` or ``%x#1`` if it comes."""
        index = self.index
        token = self.tokens[index]
        if token[:1] != "%" or token == "%":
            return None
        if is_line(token):
            self.split_line()
            token = self.tokens[index]
        place = self.starts[index]
        following = self.tokens[index + 1]
        if following[:1] == "#" and following[1:].isdigit():
            number = integer_of(following[1:])
            if number >= _MOST_RESULTS:
                self.fail("invalid SSA value result number", self.starts[index + 1])
            self.index = index + 2
            return Operand(token, number, place)
        self.index = index + 1
        return Operand(token, 0, place)

    def operand(self) -> Operand:
        """Read ``%x`` or ``%x#1``."""
        found = self.optional_operand()
        if found is None:
            self.wrong_token("expected SSA operand")
        return found

    def operands(self) -> list[Operand]:
        """Read operands with commas between, none at all included."""
        found = self.optional_operand()
        if found is None:
            return []
        items = [found]
        while self.accept(","):
            items.append(self.operand())
        return items
