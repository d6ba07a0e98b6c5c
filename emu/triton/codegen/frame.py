"""Frames of functions that are being compiled: their names, their place in the file, how they are left."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from emu.tile.ir import Location, Region, Value
from emu.triton.source import JITCallable


@dataclass(slots=True)
class Frame:
    """One call of a jit function while its body is visited.

    Attributes:
        function: The function.
        outer: Values of the names outside it.
        scope: Its variables.
        line: Offset from a line of the tree to that of the file.
        column: Offset from a column of the tree to that of the file, which counts from 1.
        caller: Location of the call.
        depth: Number of calls between it and the kernel.
        loops: Number of loops of the running program around its statements.
        declared: The statement that gave each constexpr variable its value.
        annotated: Variables that were declared ``name: constexpr`` and not yet assigned.
        lost: Variables that had a value only inside a loop or branch, and which of these it was.
        copies: How often what follows the running statement is visited: once for each way to it.
        defaults: Whether default values are visited, where any global may be used.
    """

    function: JITCallable
    outer: dict[str, object]
    scope: dict[str, object]
    line: int
    column: int
    caller: Location | None = None
    depth: int = 0
    loops: int = 0
    declared: dict[str, ast.AST] = field(default_factory=dict)
    annotated: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    defaults: bool = False
    copies: int = 1

    def location(self, node: ast.AST) -> Location:
        """Return where a node is in the file."""
        return Location(
            self.function.file_name,
            self.line + node.lineno,  # type: ignore[attr-defined]  # of an expression or statement
            self.column + node.col_offset,  # type: ignore[attr-defined]  # the same
            self.function.__name__,
            self.caller,
        )


@dataclass(slots=True)
class Leave:
    """Exit of a function with a value; what the value needs is emitted into the region.

    Without a ``return``, at the end of the function, the value is None. Where others return something, it is
    undefined, as in Triton. ``scope`` has the variables there.
    """

    region: Region
    value: object
    node: ast.AST
    location: Location | None
    at_end: bool = False
    scope: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Fork:
    """Exit of a function on both sides of a condition."""

    region: Region
    condition: Value
    sides: tuple[Region, Region]
    then: Outcome
    other: Outcome
    location: Location | None

    def leaves(self) -> Iterator[Leave]:
        """Yield every place where the function is left."""
        for side in (self.then, self.other):
            if isinstance(side, Fork):
                yield from side.leaves()
            else:
                yield side


Outcome: TypeAlias = Leave | Fork


@dataclass(frozen=True, slots=True)
class Bind:
    """A pseudo-statement: give a variable a known value (the index of an unrolled loop)."""

    name: str
    value: object


Statement: TypeAlias = ast.stmt | Bind


@dataclass(frozen=True, slots=True)
class Tail:
    """Statements that come after a block, and what comes after these."""

    statements: Sequence[Statement]
    after: Tail | None


# Trees are immutable here, and unrolled loops visit the same nodes again and again.
@functools.lru_cache(maxsize=4096)
def has_return(node: ast.AST) -> bool:
    """Return whether a statement contains a ``return`` of its own function."""
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, ast.expr | ast.FunctionDef | ast.ClassDef):
        return False
    return any(has_return(child) for child in ast.iter_child_nodes(node))


def may_end(body: Sequence[ast.stmt]) -> bool:
    """Return whether a block may reach its end, as far as its last statement shows."""
    if not body:
        return True
    last = body[-1]
    if isinstance(last, ast.If):
        return may_end(last.body) or may_end(last.orelse)
    return not isinstance(last, ast.Return)


@functools.lru_cache(maxsize=4096)
def assigned_names(node: ast.AST) -> frozenset[str]:
    """Return the names that a statement can assign."""
    return frozenset(
        child.id
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    )
