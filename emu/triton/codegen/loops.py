"""Visits of loops: what a body assigns is carried from one iteration to the next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.triton.codegen.blocks import visit_block
from emu.triton.codegen.expressions import condition_of, static_truth
from emu.triton.codegen.frame import assigned_names
from emu.triton.codegen.ranges import ELSE, OwnBounds, bounds_of, loop_name, unrolled
from emu.triton.codegen.state import State
from emu.triton.codegen.threads import visit_loop
from emu.triton.codegen.values import (
    Mismatch,
    constexpr,
    describe,
    fit,
    flatten,
    is_number,
    is_same,
    is_tensor,
    tensor,
    to_tensor,
    type_of,
    unwrap,
)
from emu.triton.language.threads import for_all, inherit, is_own, settled, widen
from emu.triton.language.values import unflatten


class _Again(Exception):
    """Raised when a body gives known variables values of the running program: they must be carried.

    The loop is then visited again, with these variables as tensors from the start; those of threads as their own.
    """

    def __init__(self, names: Sequence[str], of_threads: Sequence[str]) -> None:
        super().__init__()
        self.names = names
        self.of_threads = of_threads


@dataclass(slots=True)
class _Carried:
    """Variables that a loop may carry.

    Attributes:
        names: Their names.
        before: Their values before the loop.
        handles: The IR values of these, one after the other.
    """

    names: list[str]
    before: list[object]
    handles: list[Value]

    def arguments(self, region: Region) -> dict[str, object]:
        """Give a region an argument for each handle, and return the variables' values inside."""
        made = [Value(h.type, name=h.name) for h in self.handles]
        for inside, before in zip(made, self.handles, strict=True):
            inherit(inside, before)
        region.arguments += made
        return self.of(made)

    def of(self, handles: Sequence[Value]) -> dict[str, object]:
        """Return the variables' values that consist of other handles."""
        rest = list(handles)
        values = {}
        for name, template in zip(self.names, self.before, strict=True):
            count = len(flatten(template))
            values[name] = unflatten(template, rest[:count])
            del rest[:count]
        return values


def visit_for(state: State, node: ast.For) -> None:
    """Append a loop, or visit the body once for each index of ``static_range``."""
    values = unrolled(state, node)
    name = loop_name(state, node)
    if values is not None:
        for value in values:
            state.set(name, constexpr(value))
            visit_block(state, node.body)
        return
    try:
        bounds = bounds_of(state, node)
    except OwnBounds as own:
        visit_loop(state, node, own.bounds)
        return
    index = Value(bounds[0].handle.type, name=name)
    state.frame.scope.pop(name, None)

    def build(carried: _Carried) -> tuple[Operation, list[Region]]:
        region = Region([index])
        scope = carried.arguments(region)
        scope[name] = tensor(index, bounds[0].type)
        given = _body(state, node, region, scope, carried)
        with state.builder.into(region):
            state.builder.yield_(*given)
        operands = [*[b.handle for b in bounds], *carried.handles]
        operation = Operation(Code.FOR, operands, [], {}, (region,), state.builder.location)
        return operation, [region]

    _loop(state, node, build, {name})
    state.frame.scope.pop(name, None)
    state.frame.lost[name] = "a `for`"


def visit_while(state: State, node: ast.While) -> None:
    """Append a loop."""
    if node.orelse:
        raise state.unsupported(node.orelse[0], ELSE)

    if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
        raise state.unsupported(node.test, "the condition of a `while` cannot assign variables")

    def build(carried: _Carried) -> tuple[Operation, list[Region]]:
        before = Region()
        scope = carried.arguments(before)
        with state.builder.into(before), state.inner_scope() as inner:
            inner.update(scope)
            value = state.visit(node.test)
            value = getattr(value, "condition", value)
            if not is_tensor(value):
                raise _Known(value)
            value = settled(value)
            if is_own(value):
                raise _OfThreads(value)
            condition = condition_of(state, node, value)
            state.builder.yield_(condition.handle, *before.arguments)
        after = Region()
        given = _body(state, node, after, carried.arguments(after), carried)
        with state.builder.into(after):
            state.builder.yield_(*given)
        operation = Operation(
            Code.WHILE, carried.handles, [], {}, (before, after), state.builder.location
        )
        return operation, [before, after]

    try:
        _loop(state, node, build, set())
    except _OfThreads as own:
        visit_loop(state, node, [own.condition])
    except _Known as known:
        if static_truth(state, node, known.value):
            raise state.unsupported(
                node,
                "the condition of a `while` must depend on values of the running program, but is "
                f"always {unwrap(known.value)}",
            ) from None


def _loop(
    state: State,
    node: ast.For | ast.While,
    build: Callable[[_Carried], tuple[Operation, list[Region]]],
    own: set[str],
) -> None:
    """Append a loop, and give the carried variables its results.

    Args:
        node: The loop.
        build: Visits the loop and returns it with its regions; each begins or ends with the
            carried arguments.
        own: Variables that do not outlive an iteration.
    """
    names = [n for n in state.frame.scope if n in _assigned(node) and n not in own]
    outer = state.frame.scope
    while True:
        values = [outer[n] for n in names]
        flat = [h for v in values for h in flatten(v)]
        carried = _Carried(names, values, flat)
        try:
            operation, regions = build(carried)
            break
        except _Again as again:
            for name in again.names:
                outer[name] = to_tensor(outer[name])
            for name in again.of_threads:
                outer[name] = for_all(to_tensor(outer[name]))
    kept = _prune(operation, regions, carried.handles)
    results = dict(zip(kept, operation.results, strict=True))
    for i, result in results.items():
        inherit(result, carried.handles[i])
    handles = [results.get(i, h) for i, h in enumerate(carried.handles)]
    state.builder.region.operations.append(operation)
    for name, value in carried.of(handles).items():
        state.set(name, value)
    what = "a `for`" if isinstance(node, ast.For) else "a `while`"
    for name in _assigned(node) - outer.keys():
        state.frame.lost[name] = what


def _body(
    state: State,
    node: ast.For | ast.While,
    region: Region,
    scope: dict[str, object],
    carried: _Carried,
) -> list[Value]:
    """Visit a body into a region; return the carried handles at its end."""
    state.frame.loops += 1
    try:
        with state.builder.into(region), state.inner_scope() as inner:
            inner.update(scope)
            visit_block(state, node.body)
            return _given(state, inner, carried)
    finally:
        state.frame.loops -= 1


def _given(state: State, inner: dict[str, object], carried: _Carried) -> list[Value]:
    handles: list[Value] = []
    again: list[str] = []
    of_threads: list[str] = []
    is_wider = False  # whether a value varies among more threads than was taken for granted
    for name, before in zip(carried.names, carried.before, strict=True):
        if name not in inner and flatten(before):
            raise TypeError(
                f"{name} has a value before the loop and is the index of a loop inside it; give "
                "one of them another name"
            )
        now = inner.get(name, before)
        if is_own(now) and not is_own(before) and not _is_block(before):
            of_threads.append(name)
            continue
        if is_own(before) and (is_number(now) or (is_tensor(now) and not _is_block(now))):
            now = for_all(now)
        is_wider |= widen(before, now)
        if is_number(before) and not is_tensor(before):
            if is_tensor(now):
                again.append(name)
            continue
        if not flatten(before) and is_same(before, now):
            continue
        try:
            handles += flatten(fit(now, type_of(before)))
        except Mismatch:
            raise TypeError(_changed(name, before, now)) from None
    if again or of_threads or is_wider:
        raise _Again(again, of_threads)
    return handles


def _is_block(value: object) -> bool:
    return is_tensor(value) and value.type.is_block()


class _Known(Exception):
    """Raised when the condition of a ``while`` is known at compile time."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class _OfThreads(Exception):
    """Raised when each thread has a condition of its own."""

    def __init__(self, condition: tensor) -> None:
        super().__init__()
        self.condition = condition


def _first_value(name: str, now: tensor) -> str:
    """Return what to write before a loop, so that a variable has its later type from the start."""
    if now.dtype.is_ptr():
        return ""
    if now.type.is_block():
        return f" Before the loop write {name} = tl.zeros({list(now.extents)}, tl.{now.dtype.codegen_name()})."
    return f" Before the loop write {name} = tl.full([], 0, tl.{now.dtype.codegen_name()})."


def _changed(name: str, before: object, now: object) -> str:
    if is_tensor(before) and is_tensor(now):
        return (
            f"Loop-carried variable {name} has initial type {describe(before)} but is re-assigned to "
            f"{describe(now)} in loop! Please make sure that the type stays consistent."
            f"{_first_value(name, now)}"
        )
    return f"Loop carried variable {name} changed type, was {describe(before)} but is now {describe(now)}"


def _assigned(node: ast.For | ast.While) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for statement in node.body:
        found |= assigned_names(statement)
    return found


def _prune(operation: Operation, regions: list[Region], handles: Sequence[Value]) -> list[int]:
    """Remove from a loop the values that every iteration passes on unchanged; return positions of the rest.

    Args:
        operation: A FOR or WHILE without results; gets them.
        regions: Its regions; the last ``len(handles)`` arguments of each are the carried ones.
        handles: The values carried into the loop.
    """
    count = len(handles)
    body = regions[-1]
    first = len(body.arguments) - count
    given = body.terminator.operands
    same_ = [given[i] is body.arguments[first + i] for i in range(count)]
    kept = [i for i in range(count) if not same_[i]]
    if len(kept) < count:
        for region in regions:
            offset = len(region.arguments) - count
            swap = {region.arguments[offset + i]: handles[i] for i in range(count) if same_[i]}
            # The carried values are the last operands of a terminator; a WHILE's condition comes before them.
            last = region.terminator
            lead = len(last.operands) - count
            last.operands = (*last.operands[:lead], *[last.operands[lead + i] for i in kept])
            for inner in region.walk():
                inner.operands = tuple([swap.get(v, v) for v in inner.operands])
            region.arguments[:] = [
                *region.arguments[:offset],
                *[region.arguments[offset + i] for i in kept],
            ]
        lead = len(operation.operands) - count
        operation.operands = (
            *operation.operands[:lead],
            *[operation.operands[lead + i] for i in kept],
        )
    operation.results = tuple([Value(handles[i].type, operation) for i in kept])
    return kept
