"""Loops: what a body assigns is carried from one iteration to the next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.triton import language
from emu.triton.codegen.frame import stored
from emu.triton.codegen.statements import Statements
from emu.triton.codegen.values import (
    Mismatch,
    cast_to,
    constexpr,
    describe,
    fit,
    flatten,
    is_number,
    is_tensor,
    same,
    tensor,
    to_tensor,
    type_of,
    unwrap,
)
from emu.triton.language.promotion import integer_promote
from emu.triton.language.values import unflatten


class _Again(Exception):
    """A body gave variables, known so far, values of the running program: they must be carried."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names


@dataclass(slots=True)
class _Carried:
    """Variables that a loop may carry.

    Attributes:
        names: Theirs.
        before: What they hold before the loop.
        handles: The IR's values of that, one after the other.
    """

    names: list[str]
    before: list[Any]
    handles: list[Value]

    def arguments(self, region: Region) -> dict[str, Any]:
        """Give a region an argument for each handle, and return what the variables hold inside."""
        made = [Value(h.type, name=h.name) for h in self.handles]
        region.arguments += made
        return self.of(made)

    def of(self, handles: Sequence[Value]) -> dict[str, Any]:
        """Return the variables' values that consist of other handles."""
        rest = list(handles)
        values = {}
        for name, like in zip(self.names, self.before, strict=True):
            count = len(flatten(like))
            values[name] = unflatten(like, rest[:count])
            del rest[:count]
        return values


class Loops(Statements):
    """Visits loops."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Visit a block; :class:`Control` says how."""
        raise NotImplementedError

    def condition_of(self, node: ast.If | ast.While, value: tensor) -> tensor:
        """Return a condition as a scalar ``int1``; :class:`Control` says how."""
        raise NotImplementedError

    # ---- for

    def loop_name(self, node: ast.For) -> str:
        """Return the name of a loop's variable.

        Raises:
            UnsupportedLanguageConstruct: The target is no name.
        """
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node.target, "the target of a `for` must be a name")
        return node.target.id

    def _iterator(self, node: ast.For) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return what a loop runs over: the function, its arguments and its keywords."""
        call = node.iter
        function = unwrap(self.visit(call.func)) if isinstance(call, ast.Call) else None
        if function not in (range, language.range, language.static_range):
            raise self.unsupported(
                node.iter, "Only `range` and `static_range` iterators are currently supported"
            )
        if node.orelse:
            raise self.unsupported(node.orelse[0], "`else` of a loop is not supported")
        assert isinstance(call, ast.Call)
        arguments: list[Any] = []
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                arguments += self.unpacked(argument.value)
            else:
                arguments.append(self.visit(argument))
        return function, arguments, {str(k.arg): self.visit(k.value) for k in call.keywords}

    def unrolled(self, node: ast.For) -> range | None:
        """Return the indices of a loop over ``static_range``; of any other loop ``None``."""
        call = node.iter
        if not isinstance(call, ast.Call) or unwrap(self.visit(call.func)) is not (
            language.static_range
        ):
            return None
        function, arguments, keywords = self._iterator(node)
        for value in (*arguments, *keywords.values()):
            if not isinstance(unwrap(value), int):
                raise TypeError(
                    "static_range needs ints known at compile time, but got a value of type "
                    f"{describe(value)}"
                )
        found = function(*arguments, **keywords)
        return range(unwrap(found.start), unwrap(found.end), unwrap(found.step))

    def _visit_for(self, node: ast.For) -> None:
        values = self.unrolled(node)
        name = self.loop_name(node)
        if values is not None:
            for value in values:
                self.set(name, constexpr(value))
                self.statements(node.body)
            return
        bounds = self._bounds(node)
        index = Value(bounds[0].handle.type, name=name)
        self.frame.scope.pop(name, None)

        def build(carried: _Carried) -> tuple[Operation, list[Region]]:
            region = Region([index])
            scope = carried.arguments(region)
            scope[name] = tensor(index, bounds[0].type)
            given = self._body(node, region, scope, carried)
            with self.builder.into(region):
                self.builder.yield_(*given)
            operands = [*[b.handle for b in bounds], *carried.handles]
            operation = Operation(Code.FOR, operands, [], {}, (region,), self.builder.location)
            return operation, [region]

        self._loop(node, build, {name})
        self.frame.scope.pop(name, None)
        self.frame.lost[name] = "a `for`"

    def _bounds(self, node: ast.For) -> list[tensor]:
        """Return start, end and step of a loop as scalars of one integer dtype."""
        function, arguments, keywords = self._iterator(node)
        if function is range:
            if keywords or not 1 <= len(arguments) <= 3:
                raise TypeError(f"range takes 1 to 3 arguments, but got {len(arguments)}")
            parts = [constexpr(0), *arguments] if len(arguments) == 1 else list(arguments)
            parts = [*parts, constexpr(1)][:3]
        else:
            found = function(*arguments, **keywords)
            parts = [found.start, found.end, found.step]
        if not is_tensor(parts[2]) and unwrap(parts[2]) == 0:
            raise ValueError("step of a range must not be 0")
        bounds = [to_tensor(p) for p in parts]
        names = ("lower bound", "upper bound", "step")
        if not all(b.dtype.is_int() for b in bounds):
            kinds = ", ".join(str(b.dtype) for b in bounds)
            raise TypeError(f"For loop bounds and step must all be ints, are ({kinds})")
        for what, bound in zip(names, bounds, strict=True):
            if bound.type.is_block():
                raise TypeError(f"For {what} must be a scalar, got {bound.type}")
        type_ = bounds[0].dtype
        for bound in bounds[1:]:
            type_ = integer_promote(type_, bound.dtype)
        return [cast_to(b, type_) for b in bounds]

    # ---- while

    def _visit_while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.unsupported(node.orelse[0], "`else` of a loop is not supported")

        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
            raise self.unsupported(node.test, "the condition of a `while` cannot assign variables")

        def build(carried: _Carried) -> tuple[Operation, list[Region]]:
            before = Region()
            scope = carried.arguments(before)
            with self.builder.into(before), self.inner_scope() as inner:
                inner.update(scope)
                value = self.visit(node.test)
                value = getattr(value, "condition", value)
                if not is_tensor(value):
                    raise _Known(value)
                condition = self.condition_of(node, value)
                self.builder.yield_(condition.handle, *before.arguments)
            after = Region()
            given = self._body(node, after, carried.arguments(after), carried)
            with self.builder.into(after):
                self.builder.yield_(*given)
            operation = Operation(
                Code.WHILE, carried.handles, [], {}, (before, after), self.builder.location
            )
            return operation, [before, after]

        try:
            self._loop(node, build, set())
        except _Known as known:
            if self.decided(node, known.value):
                raise self.unsupported(
                    node,
                    "the condition of a `while` must depend on values of the running program, but is "
                    f"always {unwrap(known.value)}",
                ) from None

    # ---- both

    def _loop(
        self,
        node: ast.For | ast.While,
        build: Callable[[_Carried], tuple[Operation, list[Region]]],
        own: set[str],
    ) -> None:
        """Append a loop, and give the variables that it carries what it leaves.

        Args:
            node: The loop.
            build: Visits the loop and returns it with its regions; each begins or ends with the
                carried arguments.
            own: Variables that do not outlive an iteration.
        """
        names = [n for n in self.frame.scope if n in _assigned(node) and n not in own]
        outer = self.frame.scope
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
        kept = _prune(operation, regions, carried.handles)
        results = dict(zip(kept, operation.results, strict=True))
        handles = [results.get(i, h) for i, h in enumerate(carried.handles)]
        self.builder.region.operations.append(operation)
        for name, value in carried.of(handles).items():
            self.set(name, value)
        what = "a `for`" if isinstance(node, ast.For) else "a `while`"
        for name in _assigned(node) - outer.keys():
            self.frame.lost[name] = what

    def _body(
        self,
        node: ast.For | ast.While,
        region: Region,
        scope: dict[str, Any],
        carried: _Carried,
    ) -> list[Value]:
        """Visit a body into a region; return the carried handles at its end."""
        self.frame.loops += 1
        try:
            with self.builder.into(region), self.inner_scope() as inner:
                inner.update(scope)
                self.statements(node.body)
                return self._given(inner, carried)
        finally:
            self.frame.loops -= 1

    def _given(self, inner: dict[str, Any], carried: _Carried) -> list[Value]:
        handles: list[Value] = []
        again: list[str] = []
        for name, before in zip(carried.names, carried.before, strict=True):
            if name not in inner and flatten(before):
                raise TypeError(
                    f"{name} has a value before the loop and is the index of a loop inside it; give "
                    "one of them another name"
                )
            now = inner.get(name, before)
            if is_number(before) and not is_tensor(before):
                if is_tensor(now):
                    again.append(name)
                continue
            if not flatten(before) and same(before, now):
                continue
            try:
                handles += flatten(fit(now, type_of(before)))
            except Mismatch:
                raise TypeError(_changed(name, before, now)) from None
        if again:
            raise _Again(again)
        return handles


class _Known(Exception):
    """The condition of a WHILE is known at compile time."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _changed(name: str, before: Any, now: Any) -> str:
    if is_tensor(before) and is_tensor(now):
        return (
            f"Loop-carried variable {name} has initial type {describe(before)} but is re-assigned to "
            f"{describe(now)} in loop! Please make sure that the type stays consistent."
        )
    return f"Loop carried variable {name} changed type, was {describe(before)} but is now {describe(now)}"


def _assigned(node: ast.For | ast.While) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for statement in node.body:
        found |= stored(statement)
    return found


def _prune(operation: Operation, regions: list[Region], handles: Sequence[Value]) -> list[int]:
    """Take out of a loop what every iteration passes on unchanged; return the positions of the rest.

    Args:
        operation: A FOR or WHILE without results; gets them.
        regions: Its regions; the last ``len(handles)`` arguments of each are the carried ones.
        handles: What is carried into the loop.
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
            # What a region ends with has the carried values last, whatever comes before them.
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
