"""Visits of branches: variables that both sides assign become results of the IF."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from emu.tile.ir import Region
from emu.triton.codegen.blocks import visit_block
from emu.triton.codegen.expressions import condition_of, static_truth
from emu.triton.codegen.state import State
from emu.triton.codegen.threads import visit_branch
from emu.triton.codegen.values import (
    Mismatch,
    common_type,
    describe,
    fit,
    flatten,
    is_number,
    is_same,
    is_tensor,
    tensor,
    type_of,
    undefined,
)
from emu.triton.language.threads import for_all, inherit, is_own, settled
from emu.triton.language.values import unflatten


def visit_if(state: State, node: ast.If) -> None:
    """Append an IF, or visit one side where the condition is known at compile time."""
    value = state.visit(node.test)
    if not is_tensor(value):
        visit_block(state, node.body if static_truth(state, node, value) else node.orelse)
        return
    value = settled(value)
    if is_own(value):
        visit_branch(state, node, value, _visit_sides)
    else:
        _visit_sides(state, node, value)


def _visit_sides(state: State, node: ast.If, value: tensor, *, keeps: bool = False) -> None:
    """Append an IF on a scalar.

    Args:
        state: The compilation.
        node: The branch.
        value: Its condition.
        keeps: Whether variables that one side assigns stay; where the other one was taken they are anything.
    """
    condition = condition_of(state, node, value)
    scopes: list[dict[str, object]] = []
    regions: list[Region] = []
    for body in (node.body, node.orelse):
        region = Region()
        with state.builder.into(region), state.inner_scope() as scope:
            visit_block(state, body)
        scopes.append(scope)
        regions.append(region)
    if keeps:
        for scope, other, region in zip(scopes, reversed(scopes), regions, strict=True):
            with state.builder.into(region):
                scope.update({n: undefined(type_of(v)) for n, v in other.items() if n not in scope})
    _merge(state, node, condition, regions, scopes)


def _merge(
    state: State,
    node: ast.If,
    condition: tensor,
    regions: Sequence[Region],
    scopes: Sequence[dict[str, object]],
) -> None:
    """Append an IF of two visited sides, and give variables its results."""
    then, other = scopes
    names, pairs = [], []
    for name in dict.fromkeys((*then, *other)):
        if name not in then or name not in other:
            # Not an error yet: the variable may never be read again. ``lost`` explains it if it is.
            state.frame.scope.pop(name, None)
            state.frame.lost[name] = "one side of an `if`"
            continue
        first, second = then[name], other[name]
        if is_same(first, second):
            if name not in state.frame.scope:
                state.set(name, first)
            continue
        names.append(name)
        pairs.append(_joined(state, name, regions, first, second))
    for region, position in zip(regions, (0, 1), strict=True):
        with state.builder.into(region):
            state.builder.yield_(*[v for pair in pairs for v in flatten(pair[position])])
    # Only the yields: an IF without effect, as branches on hints leave behind.
    if not names and all(len(region.operations) == 1 for region in regions):
        return
    results = list(state.builder.if_(condition.handle, regions[0], regions[1]))
    for region in regions:
        for made, source in zip(results, region.terminator.operands, strict=True):
            inherit(made, source)
    for name, (pair, _) in zip(names, pairs, strict=True):
        count = len(flatten(pair))
        state.set(name, unflatten(pair, results[:count]))
        del results[:count]


def _joined(
    state: State, name: str, regions: Sequence[Region], first: object, second: object
) -> tuple[object, object]:
    """Return both sides' values of a variable as ones of one type.

    Raises:
        TypeError: No type can hold both.
    """
    if is_own(first) or is_own(second):  # on the other side, all threads may have the same
        made = []
        for region, value in zip(regions, (first, second), strict=True):
            with state.builder.into(region):
                made.append(for_all(value) if is_tensor(value) or is_number(value) else value)
        first, second = made
    try:
        type_ = common_type(type_of(first), type_of(second))
        made = []
        for region, value in zip(regions, (first, second), strict=True):
            with state.builder.into(region):
                made.append(fit(value, type_))
    except Mismatch:
        raise TypeError(_mismatch(state, name, first, second)) from None
    return made[0], made[1]


def _mismatch(state: State, name: str, first: object, second: object) -> str:
    before = state.frame.scope.get(name)
    if before is None:
        return (
            f"Mismatched type for {name} between then block ({describe(first)}) and else block "
            f"({describe(second)})"
        )
    side, found = ("then", first) if is_same(before, second) else ("else", second)
    return (
        f"initial value for `{name}` is of type {describe(before)}, but the {side} block redefines "
        f"it as {describe(found)}"
    )
