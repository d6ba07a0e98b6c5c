"""Literals of MLIR text: strings, symbols and the keys of dictionaries."""

from __future__ import annotations

import re
from functools import lru_cache

_MOST_DIGITS = 4300  # Python refuses to convert more: the time grows with their square
_WIDEST = 1 << 24  # bits of the widest integer type

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_UNPRINTABLE = re.compile(rb"[^ !#-\[\]-~]")
_ESCAPE = re.compile(rb"\\(?:([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def integer_of(literal: str) -> int:
    """Return the value of an integer literal, decimal or hexadecimal, without a sign.

    A literal of more digits than Python converts stands for a number that no type holds: the
    checks of its range then say what is wrong.
    """
    if literal[:2] == "0x":
        return int(literal, 16)
    digits = literal if len(literal) <= _MOST_DIGITS else literal.lstrip("0")
    return int(digits) if len(digits) <= _MOST_DIGITS else 1 << _WIDEST


def is_printable_integer(value: int) -> bool:
    """Return whether an integer can be written in decimal digits."""
    return value.bit_length() < 3 * _MOST_DIGITS  # at least three bits a digit


@lru_cache(maxsize=16384)
def quoted(text: str) -> str:
    """Return a string literal, with two hex digits for each byte that is not printable."""
    # Bytes of a source text that were not UTF-8 live on as surrogates, and come out unchanged.
    raw = text.encode("utf-8", "surrogateescape")
    escaped = _UNPRINTABLE.sub(lambda m: b"\\\\" if m[0] == b"\\" else b"\\%02X" % m[0][0], raw)
    return f'"{escaped.decode("ascii")}"'


def unescape(literal: str) -> str:
    """Return the string that a literal (quotes included) stands for."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    raw = _ESCAPE.sub(
        lambda m: bytes([int(m[1], 16)]) if m[1] else _ESCAPED[m[2]],
        body.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


@lru_cache(maxsize=16384)
def symbol_text(name: str) -> str:
    """Return ``@name``, quoted where the name is not an identifier."""
    return f"@{name}" if _BARE.fullmatch(name) else f"@{quoted(name)}"


@lru_cache(maxsize=16384)
def key_text(name: str) -> str:
    """Return the key of a dictionary entry, quoted where it is not an identifier."""
    return name if _BARE.fullmatch(name) else quoted(name)
