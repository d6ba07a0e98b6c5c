"""Statements that depend on which thread runs: they are run for one thread after the other.

See :mod:`emu.triton.language.threads`. Inside, a value that each thread has of its own is a scalar, the running thread's.
What the statement assigns becomes, behind it, a value of each thread. Where all threads of a warp go the same way, the
statement is run for one warp after the other; inside, a value is a tile of what the warp's threads have, or a scalar.

Threads run in the order of their numbers. One that waits for a thread of a higher number of its own program, in the same
statement, waits in vain; a barrier of the program between the two makes them two statements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from emu.tile.ir import Region, Value
from emu.tile.ops import ATOMIC, Code
from emu.tile.types import I32
from emu.triton import language
from emu.triton.codegen.blocks import visit_block
from emu.triton.codegen.frame import assigned_names
from emu.triton.codegen.state import State
from emu.triton.codegen.unsupported import advice
from emu.triton.codegen.values import (
    Mismatch,
    base_type,
    common_type,
    describe,
    fit,
    is_number,
    is_same,
    is_tensor,
    normalize,
    tensor,
    type_of,
    undefined,
    unwrap,
)
from emu.triton.language.context import Varies
from emu.triton.language.threads import (
    count,
    element,
    goes_by_warps,
    is_own,
    of_one,
    of_warp,
    own_value,
    part_of_warp,
    simt_exec_region,
    sync_threads,
    thread_index,
    threads_of_program,
)
from emu.triton.language.threads import state as known_threads
from emu.triton.language.types import dtype
from emu.triton.language.variation import WARP_SIZE, everything, note, relevant, variation


def for_each(
    state: State,
    names: Iterable[str],
    emit: Callable[[Callable[[tensor], tensor]], None],
    *,
    by_warps: bool = False,
) -> None:
    """Append a loop over the threads of a program, or over its warps.

    Args:
        state: The compilation.
        names: Variables that the body may assign.
        emit: Emits the body; gets a function that returns what the running thread, or warp, has of a value.
        by_warps: Whether the threads of a warp run together.
    """
    one, region = Value(I32, name="warp" if by_warps else "thread"), Region()
    region.arguments.append(one)
    outer = state.frame.scope
    part, running = (part_of_warp, of_warp) if by_warps else (element, of_one)
    turns = count() // WARP_SIZE if by_warps else count()
    varies = everything() & Varies.WARPS if by_warps else relevant()
    with state.builder.into(region), state.inner_scope() as inner, running(one):
        begin = {}
        for name, value in outer.items():
            if is_tensor(value) and is_own(value):
                begin[name] = inner[name] = part(value, one)
        emit(lambda value: part(value, one) if is_own(value) else value)
        found = {name: inner[name] for name in sorted(names) if name in inner}
        changed = {
            name: value
            for name, value in found.items()
            if not (name in outer and is_same(value, begin.get(name, outer[name])))
        }
    for name in [n for n, v in changed.items() if n not in outer and not _is_scalar(v)]:
        del changed[name], found[name]  # only the body can use it
    _note_effects(region, varies)
    _append(state, region, turns, changed)
    for name in set(names) - found.keys() - outer.keys():
        state.frame.lost[name] = "code that only some threads run"


def _is_scalar(value: object) -> bool:
    """Return whether a thread has a scalar in a variable that a body assigns."""
    return is_number(value) or (is_tensor(value) and (is_own(value) or not value.extents))


def _note_effects(region: Region, varies: Varies) -> None:
    """Note that what a body finds in memory that others change may differ each time it runs."""
    for operation in region.walk():
        if operation.code in ATOMIC or (
            operation.code in (Code.LOAD, Code.MACHINE_CALL)
            and operation.attributes.get("order") != "relaxed"
            and (operation.code is Code.MACHINE_CALL or operation.attributes)
        ):
            for result in operation.results:
                note(result, varies | variation(result))


def _append(state: State, region: Region, turns: int, changed: dict[str, object]) -> None:
    """Append the loop of a body, and give variables a value of each thread."""
    extent, one = count(), region.arguments[0]
    before, types = [], []
    for name, value in changed.items():
        type_ = _scalar_type(state, name, value)
        types.append(type_)
        before.append(_repeated(state, state.frame.scope.get(name), type_, extent))
    inside = [Value(v.type) for v in before]
    region.arguments += inside
    varies = []
    with state.builder.into(region):
        emit = state.builder
        places = emit.arange(0, extent)
        size = emit.splat(emit.constant(extent // turns, I32), (extent,))
        runs = emit.binary(Code.DIV, places, size) if turns < extent else places
        mine = emit.compare(Code.EQ, runs, emit.splat(one, (extent,)))
        given = []
        for value, type_, carried in zip(changed.values(), types, inside, strict=True):
            made = _spread(state, value, type_, extent)
            varies.append(variation(made))
            given.append(emit.select(mine, made, carried))
        emit.yield_(*given)
    emit = state.builder
    bounds = [emit.constant(n, I32) for n in (0, turns, 1)]
    loop = emit.append(Code.FOR, [*bounds, *before], [v.type for v in before], {}, (region,))
    for name, type_, result, now, was in zip(
        changed, types, loop.results, varies, before, strict=True
    ):
        state.set(name, own_value(result, type_, now | variation(was)))


def _spread(state: State, value: object, type_: dtype, extent: int) -> Value:
    """Return what a thread or a warp has in a variable, repeated for all threads."""
    emit = state.builder
    if is_tensor(value) and is_own(value):  # of a warp
        handle: Value = value.handle if value.dtype == type_ else value.to(type_).handle
        if handle.shape == (extent,):
            return handle
        lanes = emit.splat(emit.constant(WARP_SIZE, I32), (extent,))
        found = emit.gather(handle, emit.binary(Code.REM, emit.arange(0, extent), lanes), 0)
        known_threads().varies[found] = variation(handle)
        return found
    now = fit(value, type_)
    assert is_tensor(now)
    return emit.splat(now.handle, (extent,))


def _scalar_type(state: State, name: str, value: object) -> dtype:
    """Return the type that a thread's variable has, of what it was and of what the thread assigns.

    Raises:
        TypeError: It is not a scalar, or there is no such type.
    """
    before = state.frame.scope.get(name)
    type_: base_type = type_of(value if is_tensor(value) else language.to_tensor(value))
    if is_tensor(value) and is_own(value):  # of a warp, whose threads have one each
        type_ = value.dtype
    if is_tensor(before) and before.type.is_block() and not is_own(before):
        raise TypeError(_tile(name, before))
    if before is not None:
        was = before.dtype if is_tensor(before) else type_of(before)
        try:
            type_ = common_type(was, type_)
        except Mismatch:
            raise TypeError(
                f"{name} is {describe(before)}, but a thread redefines it as {describe(value)}"
            ) from None
    if not isinstance(type_, dtype) or type_.is_block():
        raise TypeError(_tile(name, value))
    return type_


def _repeated(state: State, value: object, type_: dtype, extent: int) -> Value:
    """Return a variable as each thread has it: its own already, or the same for all; anything if there is none."""
    if is_tensor(value) and is_own(value):
        handle: Value = value.handle if value.dtype == type_ else value.to(type_).handle
        return handle
    now = undefined(type_) if value is None else fit(value, type_)
    assert is_tensor(now)
    return state.builder.splat(now.handle, (extent,))


def _tile(name: str, value: object) -> str:
    return (
        f"{name} is {describe(value)}, but code that threads run one after the other can assign scalars only: each "
        "thread has one of its own"
    )


def visit_branch(state: State, node: ast.If, condition: tensor, visit: Callable[..., None]) -> None:
    """Run a branch on a condition that each thread has of its own.

    Args:
        state: The compilation.
        node: The branch.
        condition: Its condition.
        visit: Visits the branch under a scalar condition; ``keeps``: variables of one side stay, as a later part of that
            side needs them.
    """
    by_warps = goes_by_warps(condition)
    sides = _parts(state, node.body), _parts(state, node.orelse)
    if sides == tuple([list(body)] if body else [] for body in (node.body, node.orelse)):
        for_each(
            state,
            assigned_names(node),
            lambda mine: visit(state, node, mine(condition)),
            by_warps=by_warps,
        )
        return
    before = frozenset(state.frame.scope)
    # Up to a barrier all threads go that take the side, then on from there.
    for side, is_other in zip(sides, (False, True), strict=True):
        for part in side:
            one = ast.If(node.test, [ast.Pass()], part) if is_other else ast.If(node.test, part, [])
            ast.fix_missing_locations(ast.copy_location(one, node))

            def emit(mine: Callable[[tensor], tensor], one: ast.If = one) -> None:
                visit(state, one, mine(condition), keeps=True)

            for_each(state, assigned_names(one), emit, by_warps=by_warps)
    on_both = _assigned(node.body) & _assigned(node.orelse)
    for name in assigned_names(node) - on_both - before:
        state.frame.scope.pop(name, None)
        state.frame.lost[name] = "code that only some threads run"


def _assigned(statements: Sequence[ast.stmt]) -> frozenset[str]:
    return frozenset[str]().union(*map(assigned_names, statements))


def visit_loop(state: State, node: ast.For | ast.While, deciding: Sequence[tensor]) -> None:
    """Run a loop for each thread, or for each warp, whose condition or bounds are its own.

    Args:
        state: The compilation.
        node: The loop.
        deciding: Its condition, or its bounds.
    """
    by_warps = goes_by_warps(*deciding)
    for_each(state, assigned_names(node), lambda mine: state.visit(node), by_warps=by_warps)


def visit_with(state: State, node: ast.With) -> None:
    """Run a region of code of single threads; barriers of the program divide it into parts.

    Raises:
        UnsupportedLanguageConstruct: It is another ``with``.
    """
    call = node.items[0].context_expr
    found = unwrap(state.visit(call.func)) if isinstance(call, ast.Call) else None
    if found is not simt_exec_region or len(node.items) > 1:
        raise state.unsupported(node, advice(node))
    if known_threads().index is not None:
        raise state.unsupported(
            node, "code that threads run one after the other has no region inside"
        )
    names = _names(state, node.items[0].optional_vars)
    for part in _parts(state, node.body):
        assigned = _assigned(part)

        def emit(mine: Callable[[tensor], tensor], part: Sequence[ast.stmt] = part) -> None:
            given = (thread_index(), normalize(threads_of_program()))
            state.frame.scope.update(zip(names, given, strict=False))
            visit_block(state, part)

        for_each(state, assigned - set(names), emit)
    for name in names:
        state.frame.scope.pop(name, None)
        state.frame.lost[name] = "a region of threads"


def _names(state: State, target: ast.expr | None) -> list[str]:
    """Return the names that a region gives a thread's index and the number of threads."""
    if target is None:
        return []
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if len(names) != 2 or len(parts) != 2:
        raise state.unsupported(
            target, "a region of threads has two names: `as (thread_index, number_of_threads)`"
        )
    return names


def _parts(state: State, body: Sequence[ast.stmt]) -> list[list[ast.stmt]]:
    """Divide statements at barriers of the program's threads; not in code of one warp, where no barrier can be."""
    if known_threads().warp is not None:
        return [list(body)] if body else []
    parts: list[list[ast.stmt]] = [[]]
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and unwrap(state.visit(call.func)) is sync_threads:
            parts.append([])
        else:
            parts[-1].append(statement)
    return [part for part in parts if part]
