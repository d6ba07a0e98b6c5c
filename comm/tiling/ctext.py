"""The part of C++ that declarations need: tokens with their lines, and constant expressions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from emu.comm.errors import ArgumentError
from emu.comm.tiling.scalars import C_SCALARS

Number = int | float


class MacroError(ArgumentError):
    """The text of a struct's macros, or of an assignment, is wrong; names the line."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line
        """Counted from 1."""

    def __reduce__(self) -> tuple[type[MacroError], tuple[str, int]]:
        return type(self), (str(self).removeprefix(f"line {self.line}: "), self.line)


@dataclass(frozen=True)
class Token:
    """A word, number, string, directive or sign."""

    kind: str
    """``name``, ``number``, ``string``, ``character``, ``directive`` or ``sign``."""
    text: str
    line: int


_TOKEN = re.compile(
    r"""
      (?P<directive>  (?:(?<=\n)|\A)[ \t]*\#(?:\\\r?\n|/\*.*?\*/|[^\n])* )
    | (?P<space>      \s+ | \\\r?\n )
    | (?P<comment>    //(?:\\\r?\n|[^\n])* | /\*.*?\*/ )
    | (?P<open>       /\* )
    | (?P<string>     "(?:\\.|[^"\\\n])*" )
    | (?P<character>  '(?:\\.[^'\n]*|[^'\\\n])' )
    | (?P<number>     \.?[0-9](?:[eEpP][+-]|'?[0-9A-Za-z_.])* )
    | (?P<name>       [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign>       ->|::|<<=?|>>=?|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|. )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[Token]:
    """Split C++ text, or any text around it, into tokens; comments and blanks are dropped.

    Raises:
        MacroError: A ``/*`` has no end.
    """
    found, line, at = [], 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternative takes any character
        kind = match.lastgroup or ""
        piece = match[0]
        if kind == "space" and "\n" in piece:
            piece = piece[: piece.rindex("\n") + 1]  # blanks before '#' belong to the directive
        if kind == "open":
            raise MacroError("comment must end with */, but has no end", line)
        if kind not in {"space", "comment"}:
            found.append(Token(kind, piece, line))
        line += piece.count("\n")
        at += len(piece)
    return found


def source(part: Sequence[Token]) -> str:
    """Return tokens as text again, with blanks between words only."""
    text = ""
    for token in part:
        between = text[-1:].isalnum() and token.text[:1].isalnum()
        text += (" " if between else "") + token.text
    return text


_LONGEST = 300
"""Longest constant expression, in tokens; Python's parser bounds the depth of nesting."""
_DIGITS = 80

_OPERATORS: dict[type[ast.AST], Callable[..., Number]] = {  # pyright: ignore[reportAssignmentType]  # of operator's own types
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def evaluate(part: Sequence[Token], constants: Mapping[str, object]) -> Number | None:
    """Return the value of a constant expression; None if it is not one.

    Numbers, ``true`` and ``false``, characters, known constants, ``+ - * / % << >> & | ^ ~`` and
    parentheses; casts are dropped, since what the value is stored into checks its range.

    Args:
        part: The tokens of the expression.
        constants: Values by name.
    """
    if len(part) > _LONGEST:
        return None
    pieces = [_python(token, constants) for token in _without_casts(part)]
    if not pieces or None in pieces:
        return None
    try:
        tree = ast.parse(" ".join(piece for piece in pieces if piece), mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError):
        return None


def _without_casts(part: Sequence[Token]) -> list[Token]:
    texts = [token.text for token in part]
    kept, at = [], 0
    while at < len(part):
        if texts[at] == "static_cast" and texts[at + 1 : at + 4 : 2] == ["<", ">"]:
            at += 4
        elif texts[at] == "(" and texts[at + 2 : at + 3] == [")"] and texts[at + 1] in C_SCALARS:
            at += 3
        elif texts[at] in C_SCALARS and texts[at + 1 : at + 2] == ["("]:
            at += 1
        else:
            kept.append(part[at])
            at += 1
    return kept


def _python(token: Token, constants: Mapping[str, object]) -> str | None:
    if token.kind == "number":
        return _number(token.text)
    if token.kind == "character" and len(token.text) == 3:
        return str(ord(token.text[1]))
    if token.kind == "name":
        value = {"true": 1, "false": 0, **constants}.get(token.text)
        return f"({value!r})" if isinstance(value, int | float) else None
    return token.text if token.text in {*"+-*/%&|^~()", "<<", ">>"} else None


def _number(text: str) -> str | None:
    """Return a C number as Python writes it."""
    digits = text.replace("'", "")
    if len(digits) > _DIGITS:
        return None
    whole = re.fullmatch(r"(0[xX][0-9A-Fa-f]+|0[bB][01]+|[0-9]+)[uUlLzZ]*", digits)
    if whole:
        octal = re.fullmatch(r"0[0-7]+", whole[1])
        return str(int(whole[1], 8 if octal else 0)) if octal or whole[1] != "0" else "0"
    real = re.fullmatch(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFlL]?", digits)
    return real[1] if real else None


def _value(node: ast.AST) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Div | ast.Mod):
            return _divided(left, right, isinstance(node.op, ast.Div))
        if isinstance(node.op, ast.LShift | ast.RShift):
            if not (isinstance(left, int) and isinstance(right, int) and 0 <= right < 64):
                raise ValueError(right)
            return left << right if isinstance(node.op, ast.LShift) else left >> right
        return _OPERATORS[type(node.op)](left, right)
    raise ValueError(node)


def _divided(left: Number, right: Number, quotient: bool) -> Number:
    """Divide as C does: whole numbers towards zero."""
    if isinstance(left, float) or isinstance(right, float):
        if not quotient:
            raise TypeError(left)
        return left / right
    whole = abs(left) // abs(right)
    whole = whole if (left < 0) == (right < 0) else -whole
    return whole if quotient else left - whole * right
