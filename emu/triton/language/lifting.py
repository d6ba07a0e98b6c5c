"""Lifting: code of scalars becomes code of tiles that does for each element what the scalars' code does.

Branches whose condition differs from element to element are both executed, each under a predicate: memory is
only touched where it holds, and the results are chosen by it. Loops run until no element is left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile import ops
from emu.tile.ir import Builder, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import I1, I64, element_of, with_shape


class LiftingError(TypeError):
    """The code has an operation that means nothing for single elements."""


class Lifting:
    """Emitter of code that was written for scalars.

    Args:
        builder: Appends the operations.
        shape: Of the tiles.
        values: Tiles by the scalars that they stand for. Scalars that are not in it are the same for all elements.
    """

    def __init__(
        self, builder: Builder, shape: tuple[int, ...], values: dict[Value, Value]
    ) -> None:
        self._builder = builder
        self._shape = shape
        self._values = values
        self._inside: Value | None = None

    def run(self, region: Region) -> list[Value]:
        """Emit a region's operations; return what it yields, as tiles.

        Raises:
            LiftingError: An operation has no meaning for single elements.
        """
        for operation in region.operations[:-1]:
            before = self._builder.location
            self._builder.location = operation.location or before
            self._one(operation)
            self._builder.location = before
        return self.tiles(region.terminator.operands)

    def tiles(self, values: Sequence[Value]) -> list[Value]:
        """Return the tiles that stand for scalars."""
        return [self._tile(v) for v in values]

    def _tile(self, value: Value) -> Value:
        found = self._values.get(value, value)
        return found if found.shape else self._builder.splat(found, self._shape)

    def _is_uniform(self, values: Sequence[Value]) -> bool:
        return not any(self._values.get(v, v).shape for v in values)

    def _one(self, operation: Operation) -> None:
        code = operation.code
        if any(v.shape for v in (*operation.operands, *operation.results)):
            raise self._refusal(operation)
        if code is Code.CONSTANT or code in ops.LAUNCH or code in ops.ELEMENTWISE:
            self._pure(operation)
        elif code in ops.MEMORY:
            self._memory(operation)
        elif code is Code.IF:
            self._branch(operation)
        elif code is Code.FOR:
            self._counted(operation)
        elif code is Code.WHILE:
            self._while(operation)
        elif code is Code.PRINT and self._inside is None:
            shown = self.tiles(operation.operands)
            self._builder.print_(
                operation.attributes["prefix"], shown, operation.attributes.get("hex", False)
            )
        else:
            raise self._refusal(operation)

    def _refusal(self, operation: Operation) -> LiftingError:
        where = "" if self._inside is None else " under a condition that differs by element"
        return LiftingError(
            "the function of map_elementwise must work on scalars, without "
            f"{operation.code.name.lower()}{where}, but has one at {operation.location}"
        )

    def _pure(self, operation: Operation) -> None:
        if self._is_uniform(operation.operands):
            operands = [self._values.get(v, v) for v in operation.operands]
            shape: tuple[int, ...] = ()
        else:
            operands, shape = self.tiles(operation.operands), self._shape
        made = self._builder.append(
            operation.code,
            operands,
            [with_shape(shape, element_of(operation.result.type))],
            dict(operation.attributes),
        )
        self._values[operation.result] = made.result

    def _memory(self, operation: Operation) -> None:
        builder, code = self._builder, operation.code
        operands = self.tiles(operation.operands)
        order = {n: v for n, v in operation.attributes.items() if n in ("order", "scope")}
        if code is Code.ATOMIC_CAS:
            if self._inside is not None:
                raise self._refusal(operation)
            self._values[operation.result] = builder.atomic_cas(*operands, order=order)
        elif code is Code.LOAD:
            pointer, *rest = operands
            mask = self._masked(rest[0] if rest else None)
            self._values[operation.result] = builder.load(pointer, mask, *rest[1:], order=order)
        else:
            pointer, value, *rest = operands
            mask = self._masked(rest[0] if rest else None)
            if code is Code.STORE:
                builder.store(pointer, value, mask, order=order)
            else:
                kind = Rmw(operation.attributes["kind"])
                old = builder.atomic_rmw(kind, pointer, value, mask, order=order)
                self._values[operation.result] = old

    def _masked(self, mask: Value | None) -> Value | None:
        """Return a mask that is true only where the code is executed."""
        if self._inside is None or mask is None:
            return self._inside if mask is None else mask
        return self._builder.binary(Code.AND, self._inside, mask)

    def _under(self, condition: Value, region: Region) -> list[Value]:
        """Emit a region where a condition holds."""
        before, self._inside = self._inside, self._masked(condition)
        try:
            return self.run(region)
        finally:
            self._inside = before

    def _branch(self, operation: Operation) -> None:
        builder, (then, other) = self._builder, operation.regions
        if not self._is_uniform(operation.operands):
            condition = self._tile(operation.operands[0])
            first = self._under(condition, then)
            second = self._under(builder.unary(Code.NOT, condition), other)
            for result, a, b in zip(operation.results, first, second, strict=True):
                self._values[result] = builder.select(condition, a, b)
            return
        made = []
        for region in operation.regions:
            made.append(Region())
            with builder.into(made[-1]):
                builder.yield_(*self.run(region))
        condition = self._values.get(operation.operands[0], operation.operands[0])
        found = builder.if_(condition, *made)
        self._values.update(zip(operation.results, found, strict=True))

    def _counted(self, operation: Operation) -> None:
        if not self._is_uniform(operation.operands[:3]):
            self._counted_apart(operation)
            return
        builder, body = self._builder, operation.regions[0]
        bounds = [self._values.get(v, v) for v in operation.operands[:3]]
        carried = self.tiles(operation.operands[3:])
        inner = Region([Value(body.arguments[0].type, name=body.arguments[0].name)])
        self._values[body.arguments[0]] = inner.arguments[0]
        self._carry(inner, body.arguments[1:], carried)
        with builder.into(inner):
            builder.yield_(*self.run(body))
        types = [c.type for c in carried]
        made = builder.append(Code.FOR, [*bounds, *carried], types, {}, (inner,))
        self._values.update(zip(operation.results, made.results, strict=True))

    def _carry(
        self, region: Region, scalars: Sequence[Value], tiles: Sequence[Value]
    ) -> list[Value]:
        """Give a region an argument for each carried tile."""
        made = [Value(t.type, name=s.name) for s, t in zip(scalars, tiles, strict=True)]
        region.arguments += made
        self._values.update(zip(scalars, made, strict=True))
        return made

    def _counted_apart(self, operation: Operation) -> None:
        """Emit a loop whose bounds differ by element: it counts until the last element has ended."""
        builder, body = self._builder, operation.regions[0]
        index = body.arguments[0]
        start, end, step = (builder.cast(v, I64) for v in self.tiles(operation.operands[:3]))
        zero = builder.splat(builder.constant(0, I64), self._shape)
        rises = builder.compare(Code.GT, step, zero)

        def goes_on(at: Value) -> Value:
            below = builder.compare(Code.LT, at, end)
            return builder.select(rises, below, builder.compare(Code.GT, at, end))

        def emit(tiles: list[Value]) -> list[Value]:
            at, *rest = tiles
            self._values[index] = builder.cast(at, element_of(index.type))
            self._values.update(zip(body.arguments[1:], rest, strict=True))
            return [builder.binary(Code.ADD, at, step), *self.run(body)]

        carried = [start, *self.tiles(operation.operands[3:])]
        _, *found = self._until_all_end(carried, lambda tiles: goes_on(tiles[0]), emit)
        self._values.update(zip(operation.results, found, strict=True))

    def _while(self, operation: Operation) -> None:
        before, after = operation.regions
        condition, *passed = before.terminator.operands
        if list(passed) != list(before.arguments):
            raise self._refusal(operation)

        def goes_on(tiles: list[Value]) -> Value:
            self._values.update(zip(before.arguments, tiles, strict=True))
            self.run(before)
            return self._tile(condition)

        def emit(tiles: list[Value]) -> list[Value]:
            self._values.update(zip(after.arguments, tiles, strict=True))
            return self.run(after)

        found = self._until_all_end(self.tiles(operation.operands), goes_on, emit)
        self._values.update(zip(operation.results, found, strict=True))

    def _until_all_end(
        self,
        carried: list[Value],
        goes_on: Callable[[list[Value]], Value],
        emit: Callable[[list[Value]], list[Value]],
    ) -> list[Value]:
        """Emit a loop that each element leaves by itself; its values stay as they were then.

        Args:
            carried: Tiles that it begins with.
            goes_on: Emits the condition.
            emit: Emits the body; returns the tiles of the next iteration.
        """
        builder, outer = self._builder, self._inside
        every = builder.splat(builder.constant(True, I1), self._shape)
        inside = every if outer is None else outer
        before, after = Region(), Region()
        first = [Value(v.type) for v in (*carried, inside)]
        second = [Value(v.type) for v in (*carried, inside)]
        before.arguments += first
        after.arguments += second
        try:
            with builder.into(before):
                self._inside = first[-1]
                inside_now = builder.binary(Code.AND, first[-1], goes_on(first[:-1]))
                builder.yield_(self._any(inside_now), *first[:-1], inside_now)
            with builder.into(after):
                self._inside = second[-1]
                new = emit(second[:-1])
                kept = [builder.select(second[-1], n, o) for n, o in zip(new, second, strict=False)]
                builder.yield_(*kept, second[-1])
        finally:
            self._inside = outer
        return list(builder.while_([*carried, inside], before, after)[:-1])

    def _any(self, condition: Value) -> Value:
        while condition.shape:
            (condition,) = self._builder.reduce(
                [condition], 0, lambda a, b: [self._builder.binary(Code.OR, a, b)]
            )
        return condition
