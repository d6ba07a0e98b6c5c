"""Branches, and functions that are left early."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from emu.tile.ir import Region
from emu.triton.codegen.frame import Bind, Fork, Leave, Outcome, Statement, Tail, returns
from emu.triton.codegen.loops import Loops
from emu.triton.codegen.values import (
    Mismatch,
    common_type,
    constexpr,
    describe,
    fit,
    flatten,
    is_tensor,
    normalize,
    same,
    tensor,
    type_of,
)
from emu.triton.language.values import unflatten


class Control(Loops):
    """Visits blocks of statements.

    A function that is left inside a branch of the running program has no statement after that branch:
    what stands there is visited at the end of each side that gets so far. So every way through the
    function ends in one ``return``, and branches give these values as their results.
    """

    def run(self, definition: ast.FunctionDef) -> Outcome:
        """Visit a function's statements, and return how it is left."""
        outcome = self.block(definition.body, None)
        return outcome or self._leave(definition, constexpr(None))

    def _leave(self, node: ast.AST, value: Any) -> Leave:
        return Leave(self.builder.region, value, node, self.builder.location)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Visit a block in which the function is not left."""
        outcome = self.block(body, None)
        assert outcome is None

    def block(self, statements: Sequence[Statement], tail: Tail | None) -> Outcome | None:
        """Visit statements, and what comes after them if a return is among them.

        Args:
            statements: The block's.
            tail: What comes after it; visited too.

        Returns:
            How the function is left; ``None`` if it is not.
        """
        while True:
            for position, statement in enumerate(statements):
                if isinstance(statement, Bind):
                    self.set(statement.name, statement.value)
                    continue
                if not returns(statement):
                    self.visit(statement)
                    continue
                rest = Tail(statements[position + 1 :], tail)
                return self._leaving(statement, rest)
            if tail is None:
                return None
            statements, tail = tail.statements, tail.after

    def _leaving(self, node: ast.stmt, rest: Tail) -> Outcome | None:
        """Visit a statement that holds a ``return``, and what comes after it."""
        if isinstance(node, ast.Return):
            if self.frame.loops:
                raise self.unsupported(
                    node,
                    "Cannot have `return` statements inside `while` or `for` statements in triton.",
                )
            value = constexpr(None) if node.value is None else self.visit(node.value)
            with self.at(node):
                return self._leave(node, normalize(value))
        if isinstance(node, ast.If):
            return self._leaving_if(node, rest)
        if isinstance(node, ast.For):
            with self.at(node):
                values, name = self.unrolled(node), self.loop_name(node)
            if values is not None:
                body: list[Statement] = []
                for value in values:
                    body += [Bind(name, constexpr(value)), *node.body]
                return self.block(body, rest)
        self.visit(node)
        return self.block((), rest)

    def _leaving_if(self, node: ast.If, rest: Tail) -> Outcome | None:
        value = self.visit(node.test)
        if not is_tensor(value):
            return self.block(node.body if self.decided(node, value) else node.orelse, rest)
        if self.frame.loops:
            raise self.unsupported(
                node,
                "Cannot have `return` statements inside `while` or `for` statements in triton.",
            )
        location = self.frame.location(node)
        with self.at(node):
            condition = self.condition_of(node, value)
        outcomes: list[Outcome] = []
        regions: list[Region] = []
        for body in (node.body, node.orelse):
            region = self.region()
            with self.builder.into(region), self.inner_scope():
                outcomes.append(
                    self.block(body, rest) or self._leave(node, constexpr(None)),
                )
            regions.append(region)
        then, other = regions
        return Fork(
            self.builder.region, condition.handle, (then, other), outcomes[0], outcomes[1], location
        )

    def condition_of(self, node: ast.If | ast.While, value: tensor) -> tensor:
        """Return the condition of a branch or loop as a scalar ``int1``; errors name the node."""
        try:
            return self.condition(value)
        except TypeError as error:
            raise self.unsupported(node, str(error)) from None

    # ---- if

    def _visit_if(self, node: ast.If) -> None:
        value = self.visit(node.test)
        if not is_tensor(value):
            self.statements(node.body if self.decided(node, value) else node.orelse)
            return
        condition = self.condition_of(node, value)
        scopes: list[dict[str, Any]] = []
        regions: list[Region] = []
        for body in (node.body, node.orelse):
            region = self.region()
            with self.builder.into(region), self.inner_scope() as scope:
                self.statements(body)
            scopes.append(scope)
            regions.append(region)
        self._merge(node, condition, regions, scopes)

    def _merge(
        self,
        node: ast.If,
        condition: tensor,
        regions: Sequence[Region],
        scopes: Sequence[dict[str, Any]],
    ) -> None:
        """Append an IF of two visited sides, and give variables the values that it leaves."""
        then, other = scopes
        names, likes = [], []
        for name in dict.fromkeys((*then, *other)):
            if name not in then or name not in other:
                self.frame.scope.pop(name, None)
                self.frame.lost[name] = "one side of an `if`"
                continue
            first, second = then[name], other[name]
            if same(first, second):
                if name not in self.frame.scope:
                    self.set(name, first)
                continue
            names.append(name)
            likes.append(self._joined(name, regions, first, second))
        for region, position in zip(regions, (0, 1), strict=True):
            with self.builder.into(region):
                self.builder.yield_(*[v for like in likes for v in flatten(like[position])])
        if not names and all(len(region.operations) == 1 for region in regions):
            return
        results = list(self.builder.if_(condition.handle, regions[0], regions[1]))
        for name, (like, _) in zip(names, likes, strict=True):
            count = len(flatten(like))
            self.set(name, unflatten(like, results[:count]))
            del results[:count]

    def _joined(
        self, name: str, regions: Sequence[Region], first: Any, second: Any
    ) -> tuple[Any, Any]:
        """Return both sides' values of a variable as ones of one type.

        Raises:
            TypeError: There is no such type.
        """
        try:
            type_ = common_type(type_of(first), type_of(second))
            made = []
            for region, value in zip(regions, (first, second), strict=True):
                with self.builder.into(region):
                    made.append(fit(value, type_))
        except Mismatch:
            raise TypeError(self._mismatch(name, first, second)) from None
        return made[0], made[1]

    def _mismatch(self, name: str, first: Any, second: Any) -> str:
        before = self.frame.scope.get(name)
        if before is None:
            return (
                f"Mismatched type for {name} between then block ({describe(first)}) and else block "
                f"({describe(second)})"
            )
        side, found = ("then", first) if same(before, second) else ("else", second)
        return (
            f"initial value for `{name}` is of type {describe(before)}, but the {side} block redefines "
            f"it as {describe(found)}"
        )
