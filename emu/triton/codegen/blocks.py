"""Visits of blocks of statements, and of the places where a function is left.

A function that is left inside a branch of the running program has no statement after that branch: what
stands there is visited at the end of each side that gets so far. So every path through the function ends
in one ``return``, and branches give these values as their results. Where both sides may get so far, again and
again, they are joined instead: see :data:`MAX_COPIES`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Mapping, Sequence

from emu.tile.ir import Region
from emu.triton.codegen.expressions import condition_of, static_truth
from emu.triton.codegen.frame import (
    Bind,
    Fork,
    Leave,
    Outcome,
    Statement,
    Tail,
    assigned_names,
    has_return,
    may_end,
)
from emu.triton.codegen.ranges import loop_name, unrolled
from emu.triton.codegen.state import State
from emu.triton.codegen.values import (
    Mismatch,
    base_type,
    common_type,
    constexpr,
    fit,
    flatten,
    is_same,
    is_tensor,
    normalize,
    tensor,
    to_tensor,
    type_of,
    undefined,
)
from emu.triton.language.threads import is_own, settled
from emu.triton.language.values import unflatten

MAX_COPIES = 4
"""Ways to a statement, by branches that some path leaves the function in, for each of which it is visited.

Copies keep what is known on each way. Beyond this number, ways are joined, so that the code does not double with
each such branch.
"""

_RETURN = (
    "Cannot have `return` statements inside `while` or `for` statements in triton. "
    "Use a `while` whose condition ends the loop, and return behind it."
)


def run(state: State, definition: ast.FunctionDef) -> Outcome:
    """Visit a function's statements, and return how it is left."""
    outcome = _block(state, definition.body, None)
    return outcome or _leave(state, definition, constexpr(None), at_end=True)


def _leave(state: State, node: ast.AST, value: object, at_end: bool = False) -> Leave:
    scope = state.frame.scope if at_end else {}
    return Leave(state.builder.region, value, node, state.builder.location, at_end, scope)


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
                _RETURN,
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
            _RETURN,
        )
    value = settled(value)
    if is_own(value):
        raise state.unsupported(
            node,
            "a function cannot be left by some of a program's threads: put what follows into a branch",
        )
    with state.at(node):
        condition = condition_of(state, node, value)
    both = may_end(node.body) and may_end(node.orelse)
    if both and state.frame.copies >= MAX_COPIES:
        fork = _both_sides(state, node, condition, None)
        with contextlib.suppress(Mismatch):
            return _rejoined(state, node, fork, rest)
    state.frame.copies *= 1 + both
    try:
        return _both_sides(state, node, condition, rest)
    finally:
        state.frame.copies //= 1 + both


def _both_sides(state: State, node: ast.If, condition: tensor, rest: Tail | None) -> Fork:
    """Visit both sides of a branch, and what comes after each."""
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
        state.builder.region,
        condition.handle,
        (then, other),
        outcomes[0],
        outcomes[1],
        state.frame.location(node),
    )


def _rejoined(state: State, node: ast.If, fork: Fork, rest: Tail) -> Outcome:
    """Append a branch whose results say whether the function was left in it; visit what comes after once.

    Raises:
        Mismatch: The values of a variable, or those that are returned, have no common type.
    """
    leaves = list(fork.leaves())
    ends = [leaf for leaf in leaves if leaf.at_end]
    given = functools.reduce(
        common_type, [type_of(leaf.value) for leaf in leaves if not leaf.at_end]
    )
    types: dict[str, base_type] = {}
    kept: dict[str, object] = {}
    for name in ends[0].scope:
        values = [leaf.scope[name] for leaf in ends if name in leaf.scope]
        if len(values) < len(ends):
            continue
        if all(is_same(values[0], v) for v in values):
            kept[name] = values[0]  # not from within a side, as all sides have it
        else:
            types[name] = functools.reduce(common_type, map(type_of, values))
    made = _joined(state, fork, given, types)
    left, value, *variables = made
    state.frame.scope.update(kept)
    for name in assigned_names(node) - types.keys() - kept.keys():
        state.frame.scope.pop(name, None)
        state.frame.lost[name] = "one side of an `if`"
    for name, variable in zip(types, variables, strict=True):
        state.set(name, variable)
    leaving, going = Region(), Region()
    with state.builder.into(going), state.inner_scope():
        outcome = _block(state, (), rest) or _leave(state, node, constexpr(None), at_end=True)
    out = Leave(leaving, value, node, fork.location)
    assert is_tensor(left)
    return Fork(state.builder.region, left.handle, (leaving, going), out, outcome, fork.location)


def _joined(
    state: State, outcome: Outcome, given: base_type, types: Mapping[str, base_type]
) -> list[object]:
    """Append the branches; return whether the function was left, what it returned, and the variables."""
    with state.builder.into(outcome.region):
        if isinstance(outcome, Leave):
            if outcome.at_end:
                values = [fit(outcome.scope[name], type_) for name, type_ in types.items()]
                return [to_tensor(False), undefined(given), *values]
            unset = [undefined(type_) for type_ in types.values()]
            return [to_tensor(True), fit(outcome.value, given), *unset]
        template: list[object] = []
        for region, side in zip(outcome.sides, (outcome.then, outcome.other), strict=True):
            with state.builder.into(region):
                template = _joined(state, side, given, types)
                state.builder.yield_(*[h for v in template for h in flatten(v)])
        results = list(state.builder.if_(outcome.condition, *outcome.sides))
    made = []
    for part in template:
        count = len(flatten(part))
        made.append(unflatten(part, results[:count]))
        del results[:count]
    return made
