"""Conditions of assertions as the source has them: what their errors show."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

MOST = 8
"""Most operands that an error shows."""

_JOINS = (ast.BitAnd, ast.BitOr, ast.BitXor)


def operands_of(condition: ast.expr) -> dict[str, ast.expr]:
    """Return what a condition compares or joins, by its text; a name alone, and what is written as a number, is not."""
    found: dict[str, ast.expr] = {}
    for node in _search(condition):
        if node is not condition:
            found.setdefault(ast.unparse(node), node)
    return dict(list(found.items())[:MOST])


def _search(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _JOINS):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        parts = [node.operand]
    elif isinstance(node, ast.Compare):
        yield from (n for n in (node.left, *node.comparators) if not _is_literal(n))
        return
    else:
        if not _is_literal(node):
            yield node
        return
    for part in parts:
        yield from _search(part)


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, ast.Constant)


class Operands(Mapping[str, object]):
    """Values of a condition's operands by their text, as they become known.

    Args:
        parts: The operands by their text.
        values: What each was found to be; None of one that was not evaluated.
    """

    def __init__(self, parts: Mapping[str, ast.expr], values: Mapping[ast.AST, object]) -> None:
        self._parts, self._values = parts, values

    def __getitem__(self, name: str) -> object:
        return self._values[self._parts[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
