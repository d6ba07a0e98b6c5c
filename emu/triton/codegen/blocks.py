"""Visits of blocks of statements, and of the places where a function is left.

A function that is left inside a branch of the running program has no statement after that branch: what
stands there is visited at the end of each side that gets so far. So every path through the function ends
in one ``return``, and branches give these values as their results.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from emu.tile.ir import Region
from emu.triton.codegen.expressions import condition_of, static_truth
from emu.triton.codegen.frame import Bind, Fork, Leave, Outcome, Statement, Tail, has_return
from emu.triton.codegen.ranges import loop_name, unrolled
from emu.triton.codegen.state import State
from emu.triton.codegen.values import constexpr, is_tensor, normalize


def run(state: State, definition: ast.FunctionDef) -> Outcome:
    """Visit a function's statements, and return how it is left."""
    outcome = _block(state, definition.body, None)
    return outcome or _leave(state, definition, constexpr(None), at_end=True)


def _leave(state: State, node: ast.AST, value: object, at_end: bool = False) -> Leave:
    return Leave(state.builder.region, value, node, state.builder.location, at_end)


def visit_block(state: State, body: Sequence[ast.stmt]) -> None:
    """Visit a block in which the function is not left."""
    outcome = _block(state, body, None)
    assert outcome is None


def _block(state: State, statements: Sequence[Statement], tail: Tail | None) -> Outcome | None:
    """Visit statements, and what comes after them if a return is among them.

    Args:
        statements: The block's.
        tail: Statements after it, which are visited too.

    Returns:
        How the function is left; ``None`` if it is not.
    """
    while True:
        for position, statement in enumerate(statements):
            if isinstance(statement, Bind):
                state.set(statement.name, statement.value)
                continue
            if not has_return(statement):
                state.visit(statement)
                continue
            # What follows is visited at the end of each side that does not leave the function: perhaps twice.
            rest = Tail(statements[position + 1 :], tail)
            return _leaving(state, statement, rest)
        if tail is None:
            return None
        statements, tail = tail.statements, tail.after


def _leaving(state: State, node: ast.stmt, rest: Tail) -> Outcome | None:
    """Visit a statement that holds a ``return``, and what comes after it."""
    if isinstance(node, ast.Return):
        if state.frame.loops:
            raise state.unsupported(
                node,
                "Cannot have `return` statements inside `while` or `for` statements in triton.",
            )
        value = constexpr(None) if node.value is None else state.visit(node.value)
        with state.at(node):
            return _leave(state, node, normalize(value))
    if isinstance(node, ast.If):
        return _leaving_if(state, node, rest)
    if isinstance(node, ast.For):
        with state.at(node):
            values, name = unrolled(state, node), loop_name(state, node)
        if values is not None:
            # Unrolled into one block, so that a return in any turn leaves the function.
            body: list[Statement] = []
            for value in values:
                body += [Bind(name, constexpr(value)), *node.body]
            return _block(state, body, rest)
    state.visit(node)
    return _block(state, (), rest)


def _leaving_if(state: State, node: ast.If, rest: Tail) -> Outcome | None:
    value = state.visit(node.test)
    if not is_tensor(value):
        return _block(state, node.body if static_truth(state, node, value) else node.orelse, rest)
    if state.frame.loops:
        raise state.unsupported(
            node,
            "Cannot have `return` statements inside `while` or `for` statements in triton.",
        )
    location = state.frame.location(node)
    with state.at(node):
        condition = condition_of(state, node, value)
    outcomes: list[Outcome] = []
    regions: list[Region] = []
    for body in (node.body, node.orelse):
        region = Region()
        with state.builder.into(region), state.inner_scope():
            outcomes.append(
                _block(state, body, rest) or _leave(state, node, constexpr(None), at_end=True),
            )
        regions.append(region)
    then, other = regions
    return Fork(
        state.builder.region, condition.handle, (then, other), outcomes[0], outcomes[1], location
    )
