"""Verifier of modules: structure, dominance, symbols.

An isolated operation (a function) reports its first error only, so the order is MLIR's: an operation
before those it holds; blocks with their terminators; isolated operations inside once the rest of the
operation is done; then dominance. All functions of a module are verified, also after an error in one.

Dominance is first checked fast over the whole region, with a set of the values seen so far; only if
that fails is the error looked up slowly.

``verify_changes`` verifies a module that was valid before some of its operations changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache

from emu.mlir.diagnostics import Diagnostic, Diagnostics, Severity
from emu.mlir.dominance import GRAPH_OPS, Dominance
from emu.mlir.ir import Block, BlockArgument, Operation, Region, Value
from emu.mlir.registry import (
    OpDefinition,
    attribute_verifiers,
    definition,
    known_dialects,
    names_where,
)
from emu.mlir.symbols import indexed
from emu.mlir.text.printer import to_text

_NO_TERMINATOR = frozenset({"builtin.module"})


def verify(
    op: Operation,
    diagnostics: Diagnostics,
    only: AbstractSet[Operation] | None = None,
    *,
    alike: AbstractSet[Operation] = frozenset(),
    reordered: AbstractSet[Operation] | None = None,
    inside: Sequence[Operation] | None = None,
) -> bool:
    """Return whether an operation and all operations in it are valid.

    Args:
        op: The operation, usually a module.
        diagnostics: Receives the errors.
        only: Operations to verify, with all that are around them; the others are known to be valid.
            Default: all.
        alike: Operations that are as valid as others in it, whatever is around them. Errors of
            these are not reported again, where one of the others has them. Default: none.
        reordered: Isolated operations in which an operand may come before its definition, as
            ``reordered_operations`` returns them. Default: all.
        inside: All operations in it, if the caller has them.
    """
    inside = operations_inside(op) if inside is None and op.regions else inside
    return _verify(op, _Run(diagnostics, only, alike, op, inside, reordered))


@dataclass(slots=True)
class _Run:
    """One verification.

    Attributes:
        diagnostics: Receives the errors.
        only: Operations to verify; None for all.
        alike: Operations that are as valid as others.
        top: The outermost operation.
        inside: All operations in that, if they are known.
        reordered: Isolated operations whose dominance is to be verified; None for all.
        scope: The nearest operation around at which verifiers look, or None.
        valid: What is known of operations that were found valid. Layers of a model repeat the same
            few operations: those that do not differ from one of them are not verified again.
        same: The same by the identity of types and attributes, which live as long as the operations.
            Most equal ones are one object; this look-up takes a third of the time of the other.
    """

    diagnostics: Diagnostics
    only: AbstractSet[Operation] | None
    alike: AbstractSet[Operation]
    top: Operation
    inside: Sequence[Operation] | None = None
    reordered: AbstractSet[Operation] | None = None
    scope: Operation | None = None
    valid: set[tuple[object, ...]] = field(default_factory=set)
    same: set[tuple[object, ...]] = field(default_factory=set)


def _verify(op: Operation, run: _Run) -> bool:
    with indexed(op) if definition(op.name).symbol_table else nullcontext():
        if not _structure(op, run):
            return False
        if not op.regions or (run.reordered is not None and op not in run.reordered):
            return True
        return _dominance(op, run.diagnostics)


def symbols_beside_functions(module: Operation) -> list[object]:
    """Return what operations anywhere in a module may refer to, apart from its functions: meshes."""
    found: list[object] = []
    for op in module.body():
        if op.name != "func.func":
            found += (op, *op.properties.items())
    return found


def changed_operations(
    top: Operation, inside: Sequence[Operation] | None = None
) -> list[Operation]:
    """Return the operations in another one, and itself, that have changed since they were verified."""
    inside = operations_inside(top) if inside is None else inside
    return [*([top] if top.changed else []), *[op for op in inside if op.changed]]


def reordered_operations(changed: Sequence[Operation]) -> set[Operation]:
    """Return the isolated operations in which operands or the order of operations have changed.

    Args:
        changed: What has changed, as ``changed_operations`` returns it.
    """
    found: set[Operation] = set()
    blocks: set[Block | None] = set()
    for op in changed:
        if op.changed is not True:  # its attributes only
            continue
        if op.regions and definition(op.name).isolated:
            found.add(op)
        holder: Operation | None = op
        while holder is not None and holder.parent not in blocks:
            blocks.add(holder.parent)
            holder = holder.parent_op
            if holder is not None and definition(holder.name).isolated:
                found.add(holder)
                break
    return found


def operations_inside(top: Operation) -> list[Operation]:
    """Return the operations in another one, in any order: a fraction of the time of ``walk``."""
    found: list[Operation] = []
    pending = list(top.regions)
    while pending:
        for block in pending.pop().blocks:
            op = block._first
            while op is not None:
                found.append(op)
                if op.regions:
                    pending += op.regions
                op = op._next
    return found


def concerned_by(
    top: Operation, changed: Sequence[Operation], inside: Sequence[Operation] | None = None
) -> set[Operation]:
    """Return the operations in another one whose validity depends on changed ones, those included.

    Checks look at an operation itself, at what is inside it, and at what ``OpDefinition`` says.
    """
    inside = operations_inside(top) if inside is None else inside
    found = set(changed)
    for op in changed:
        if op.name == "func.func":
            # Returns look at the function's type.
            found.update(b.last for r in op.regions for b in r.blocks if b.last is not None)
        elif op.regions and op is not top:
            found.update(op.walk())
    # Those that look at what defines their operands are few: all of them, rather than look for users.
    attributes = frozenset[str]().union(*(c.reading_around for c in attribute_verifiers.values()))
    reading = names_where(lambda known: known.reads_around)
    found.update([op for op in inside if op.name in reading])
    found.update(
        [op for op in inside if op.attributes and not attributes.isdisjoint(op.attributes)]
    )
    # Operations that hold them, once each: those of a block share them.
    pending = {op.parent for op in found}
    while pending:
        above = pending.pop()
        around = None if above is None else above.parent_op
        if around is not None and around not in found:
            found.add(around)
            pending.add(around.parent)
    return found


@lru_cache(maxsize=1024)
def _reads_around(attribute: str) -> bool:
    checks = attribute_verifiers.get(attribute.partition(".")[0])
    return checks is not None and attribute in checks.reading_around


def verified_state(op: Operation) -> list[object]:
    """Return all that the verifier reads of an operation and of those in it.

    If two states of an operation are equal, then either is valid as the other is; taking one costs a
    small part of a verification. It holds objects, not copies: types and attributes do not change,
    and operations, values and blocks are told apart by identity.
    """
    state: list[object] = []
    for each in op.walk():
        state += (
            *(each, each.name, each.parent, each._operands.copy(), each.successors),
            [(result, result.type, *result._uses) for result in each.results],
            tuple(each.properties.items()),
            tuple(each.attributes.items()),
        )
        for region in each.regions:
            state.append(region)
            for block in region.blocks:
                # An operation between blocks, or moved to another one, has another parent above.
                arguments = [(value, value.type, *value._uses) for value in block.arguments]
                state += (block, block.parent, arguments)
    return state


def _structure(op: Operation, run: _Run) -> bool:
    known = definition(op.name)
    if op.regions and run.only is not None and op not in run.only:
        return True
    seen: tuple[object, ...] | None = None
    same: tuple[object, ...] | None = None
    if not (known.terminator or known.symbol or known.reads_around) and known.name:
        if not op.regions:
            same = _identities(op, run.scope)
            if same in run.same:
                return True
        body = _small_body(op) if op.regions else ()
        if body is not None:
            types = tuple([value.type for value in op._operands])
            seen = (run.scope, types, body, *_own(op))
    if seen is None or seen not in run.valid:
        fine = _contents(op, known, run) if op.regions else _entrance(op, known, run.diagnostics)
        if not (fine and _exit(op, known, run)):
            return False
        if seen is None or any(map(_reads_around, op.attributes)):
            return True
        run.valid.add(seen)
    if same is not None:
        run.same.add(same)
    return True


def _identities(op: Operation, scope: Operation | None) -> tuple[object, ...]:
    properties, attributes = op.properties, op.attributes
    return (
        op.name,
        id(scope),
        *[id(value.type) for value in op._operands],
        None,
        *[id(result.type) for result in op.results],
        *properties,
        *map(id, properties.values()),
        None,
        *attributes,
        *map(id, attributes.values()),
    )


def _own(op: Operation) -> tuple[object, ...]:
    results = tuple([result.type for result in op.results])
    return op.name, results, tuple(op.properties.items()), tuple(op.attributes.items())


_SMALL = 4


def _small_body(op: Operation) -> tuple[object, ...] | None:
    """Return all that is in regions of a few operations each that use nothing from outside, or None."""
    parts: list[object] = []
    for region in op.regions:
        if len(region.blocks) != 1:
            return None
        (block,) = region.blocks
        numbers: dict[Value, int] = {value: n for n, value in enumerate(block.arguments)}
        parts.append(tuple([value.type for value in block.arguments]))
        for count, inner in enumerate(block):
            if count == _SMALL or inner.regions or inner.successors:
                return None
            operands = [numbers.get(value) for value in inner._operands]
            if None in operands or definition(inner.name).reads_around:
                return None
            parts.append((*operands, *_own(inner)))
            for result in inner.results:
                numbers[result] = len(numbers)
    return tuple(parts)


def _contents(op: Operation, known: OpDefinition, run: _Run) -> bool:
    """Verify an operation with regions, and those in them."""
    if not _entrance(op, known, run.diagnostics):
        return False
    outer, run.scope = run.scope, op if known.scope else run.scope
    isolated: list[Operation] = []
    for region in op.regions:
        for block in region.blocks:
            if not _block(block, run, isolated):
                return False
    fine = [_verify(each, run) for each in isolated]  # all of them report
    run.scope = outer
    return all(fine)


def _entrance(op: Operation, known: OpDefinition, diagnostics: Diagnostics) -> bool:
    for name, attribute in sorted(op.attributes.items()) if op.attributes else ():
        check = attribute_verifiers.get(name.partition(".")[0])
        if check is not None and not check.operation(op, name, attribute, diagnostics):
            return False
    if known.terminator and op.next_op is not None:
        return op.emit_op_error(diagnostics, "must be the last operation in the parent block")
    return known.verify is None or known.verify(op, diagnostics)


def _exit(op: Operation, known: OpDefinition, run: _Run) -> bool:
    diagnostics = run.diagnostics
    if known.symbol_table and not _symbols(op, run):
        return False
    if known.verify_regions is not None and not known.verify_regions(op, diagnostics):
        return False
    return bool(known.name) or _known(op, diagnostics)


def _known(op: Operation, diagnostics: Diagnostics) -> bool:
    """Verify that the dialect of an operation without a definition allows such."""
    dialect = op.name.partition(".")[0]
    if dialect in known_dialects:
        diagnostics.error(
            op.location,
            f"unregistered operation '{op.name}' found in dialect ('{dialect}') "
            "that does not allow unknown operations",
        )
        return False
    return True


def _block(block: Block, run: _Run, isolated: list[Operation]) -> bool:
    diagnostics, only = run.diagnostics, run.only
    parent = block.parent_op
    if block.first is None:
        if parent is None or _needs_no_terminator(block):
            return True
        diagnostics.error(parent.location, "empty block: expect at least a terminator")
        return False
    ops = list(block)
    for op in ops:
        if op.successors and op is not block.last:
            diagnostics.error(
                op.location, "operation with block successors must terminate its parent block"
            )
            return False
    alike = run.alike
    for op in ops if only is None else [op for op in ops if op in only]:
        if op in alike:
            continue
        if op.regions and definition(op.name).isolated:
            isolated.append(op)
        elif not _structure(op, run):
            return False
    return _last(block, diagnostics)


def _needs_no_terminator(block: Block) -> bool:
    """Return whether a block is the only one of a module or of an unknown operation's region."""
    parent, region = block.parent_op, block.parent
    if parent is None or region is None or len(region.blocks) != 1:
        return False
    return parent.name in _NO_TERMINATOR or not definition(parent.name).name


def _last(block: Block, diagnostics: Diagnostics) -> bool:
    """Verify that a block ends with a terminator, which stays in its region."""
    last = block.terminator
    if any(successor.parent is not block.parent for successor in last.successors):
        return last.emit_op_error(diagnostics, "branching to block of a different region")
    known = definition(last.name)
    if known.terminator or not known.name or _needs_no_terminator(block):
        return True
    diagnostics.error(last.location, f"block with no terminator, has {_one_line(last)}")
    return False


def _one_line(op: Operation) -> str:
    return to_text(op, generic=True).strip()


# Symbols


def _symbols(table: Operation, run: _Run) -> bool:
    diagnostics = run.diagnostics
    if len(table.regions) != 1:
        return table.emit_op_error(
            diagnostics, "Operations with a 'SymbolTable' must have exactly one region"
        )
    if len(table.regions[0].blocks) != 1:
        return table.emit_op_error(
            diagnostics, "Operations with a 'SymbolTable' must have exactly one block"
        )
    seen: dict[str, Operation] = {}
    for op in table.body():
        name = op.symbol_name
        if name is None:
            continue
        first = seen.setdefault(name, op)
        if first is not op:
            diagnostics.emit(
                _error(op, f"redefinition of symbol named '{name}'").note(
                    "see existing symbol definition here", first.location
                )
            )
            return False
    if table is run.top and run.inside is not None:
        users = names_where(lambda known: known.verify_symbol_uses)
        found = [op for op in run.inside if op.name in users]
        if all(_uses_symbols_well(op, Diagnostics()) for op in found):
            return True
        # Reported in order, and only those of this table.
    return _symbol_users(table, diagnostics)


def _uses_symbols_well(op: Operation, diagnostics: Diagnostics) -> bool:
    check = definition(op.name).verify_symbol_uses
    return check is None or check(op, diagnostics)


def _symbol_users(table: Operation, diagnostics: Diagnostics) -> bool:
    """Verify symbol uses region by region; of the regions found on the way, the last one first."""
    pending = list(table.regions)
    while pending:
        region = pending.pop()
        for block in region.blocks:
            op = block._first
            while op is not None:
                if not _uses_symbols_well(op, diagnostics):
                    return False
                if op.regions and not definition(op.name).symbol_table:
                    pending += op.regions
                op = op._next
    return True


def _error(op: Operation, message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, op.location, message)


# Dominance


def _dominance(op: Operation, diagnostics: Diagnostics) -> bool:
    visible: set[Value] = set()
    if op.name not in GRAPH_OPS and all(_all_dominate(region, visible) for region in op.regions):
        return True
    return _find_violation(op, diagnostics)


def _all_dominate(region: Region, visible: set[Value]) -> bool:
    """Return whether each operand is visible; False also where that is not certain."""
    if not region.blocks:
        return True
    if len(region.blocks) > 1:
        return False
    block = region.blocks[0]
    added: list[Value] = list(block.arguments)
    visible.update(added)
    for op in block:
        for value in op._operands:
            if value not in visible:
                return False
        if op.regions and not definition(op.name).isolated:
            for inner in op.regions:
                if not _all_dominate(inner, visible):
                    return False
        if op.results:
            visible.update(op.results)
            added += op.results
    visible.difference_update(added)
    return True


def _find_violation(top: Operation, diagnostics: Diagnostics) -> bool:
    if definition(top.name).isolated and not _is_closed(top, diagnostics):
        return False
    dominance = Dominance()
    pending = [top]
    while pending:
        parent = pending.pop()
        for region in parent.regions:
            for block in region.blocks:
                reachable = dominance.is_reachable(block)
                for op in block:
                    if reachable:
                        for index, value in enumerate(op._operands):
                            if not dominance.value_dominates(value, op):
                                _report_dominance(op, index, value, diagnostics)
                                return False
                    if op.regions and not definition(op.name).isolated:
                        pending.append(op)
    return True


def _is_closed(isolated: Operation, diagnostics: Diagnostics) -> bool:
    """Verify that the operations in an isolated one use only values that are defined there."""
    for region in isolated.regions:
        pending = [region]
        while pending:
            for block in pending.pop().blocks:
                for op in block:
                    for value in op._operands:
                        home = value.parent_block
                        if home is None and value.defining_op is None:
                            # A name that was used and never defined.
                            diagnostics.emit(_error(op, "operation's operand is unlinked"))
                            return False
                        if home is None or not _is_ancestor(region, home.parent):
                            error = _error(
                                op, f"'{op.name}' op using value defined outside the region"
                            )
                            error.note(
                                "required by region isolation constraints", isolated.location
                            )
                            diagnostics.emit(error)
                            return False
                    if op.regions and not definition(op.name).isolated:
                        pending += op.regions
    return True


def _report_dominance(op: Operation, index: int, value: Value, diagnostics: Diagnostics) -> None:
    error = _error(op, f"operand #{index} does not dominate this use")
    region = op.parent.parent if op.parent is not None else None
    block = value.parent_block
    other = block.parent if block is not None else None
    if isinstance(value, BlockArgument):
        parent = value.owner.parent_op
        number = other.blocks.index(value.owner) if other is not None else 0
        error.note(
            f"operand defined as a block argument (block #{number}"
            f"{_relation(region, other, 'neither')})",
            parent.location if parent is not None else None,
        )
    elif value.defining_op is not None:
        where = " (op in the same block" if block is op.parent else ""
        where = where or f" (op{_relation(region, other, 'is neither')}"
        error.note(f"operand defined here{where})", value.defining_op.location)
    diagnostics.emit(error)


def _relation(user: Region | None, owner: Region | None, neither: str) -> str:
    if user is owner:
        return " in the same region"
    if _is_ancestor(owner, user):
        return " in a parent region"
    if _is_ancestor(user, owner):
        return " in a child region"
    return f" {neither} in a parent nor in a child region"


def _is_ancestor(outer: Region | None, inner: Region | None) -> bool:
    while inner is not None:
        if inner is outer:
            return True
        block = inner.parent.parent if inner.parent is not None else None
        inner = block.parent if block is not None else None
    return False
