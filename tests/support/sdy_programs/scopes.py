"""Scopes and functions of the random programs: what may be used where."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sdy_programs.shardings import BOOL, FLOAT, INT, Shape, Shardings, Value, names, types

PRIORITY = re.compile(r"\}p\d")


@dataclass
class Function:
    name: str
    inputs: list[Value]
    outputs: list[Value]
    axes_free: bool  # whether nothing in it is sharded


class Scope:
    """What an operation may use, and where its text goes."""

    def __init__(
        self,
        program: Program,
        values: Sequence[Value],
        *,
        depth: int = 0,
        taken: frozenset[str] = frozenset(),
        arguments: list[Value] | None = None,
        sharded: bool = True,
    ) -> None:
        self.program = program
        self.values = list(values)
        self.depth = depth
        self.taken = taken
        self.arguments = arguments
        self.sharded = sharded
        self.lines: list[str] = []
        self.groups = program.new_groups()

    def inner(self, values: Sequence[Value], **changes: object) -> Scope:
        """A scope inside; it may use what this one holds unless isolated."""
        settings = {
            "depth": self.depth + 1,
            "taken": self.taken,
            "arguments": self.arguments,
            "sharded": self.sharded,
        } | changes
        scope = Scope(self.program, values, **settings)  # type: ignore[arg-type]
        if "taken" not in changes:
            scope.groups = self.groups
        return scope

    def write(self, text: str) -> None:
        self.lines += ["  " + line for line in text.split("\n")]

    def result(self, shape: Shape, element: str = FLOAT) -> Value:
        return Value(self.program.new_name(), shape, element)

    def attributes(self, results: Sequence[Value], chance: float = 0.2) -> str:
        """`` {sdy.sharding = …}`` now and then."""
        rng = self.program.rng
        if not self.sharded or rng.random() > chance:
            return ""
        return f" {{sdy.sharding = {self.program.shardings.per_value(results, self.taken)}}}"

    def define(self, text: str, *results: Value) -> None:
        """Write an operation, name its results, and add them to the values."""
        head, names_ = results[0].name, [r.name for r in results]
        if len(results) > 1:
            base = self.program.new_name()
            head, names_ = f"{base}:{len(results)}", [f"{base}#{i}" for i in range(len(results))]
        self.write(f"{head} = {text}")
        defined = [Value(n, r.shape, r.element) for n, r in zip(names_, results, strict=True)]
        self.values += defined
        if PRIORITY.search(text):
            # Shardy crashes where an operation with priorities dies during propagation.
            for value in defined:
                self.write(
                    f"stablehlo.custom_call @keep({value.name}) {{has_side_effect = true}} : "
                    f"({value.type}) -> ()"
                )

    def add(self, mnemonic: str, operands: str, tail: str, *results: Value) -> None:
        """An operation whose attributes come before its colon."""
        self.define(f"{mnemonic} {operands}{self.attributes(results)} : {tail}", *results)

    def pick(self, wanted: Callable[[Value], bool] = lambda v: v.element == FLOAT) -> Value | None:
        """One of the values, the newer ones more often."""
        found = [v for v in self.values if wanted(v)]
        if not found:
            return None
        recent = found[-4:]
        return self.program.rng.choice(recent if self.program.rng.random() < 0.5 else found)

    def any_float(self, rank: int = 0) -> Value:
        found = self.pick(lambda v: v.element == FLOAT and len(v.shape) >= rank)
        return found or self.fresh(self.program.new_shape(max(rank, 1)))

    def like(self, shape: Shape, element: str = FLOAT) -> Value:
        """A value of the type: one that is there or a new one."""
        found = self.pick(lambda v: v.shape == shape and v.element == element)
        if found is not None and self.program.rng.random() < 0.85:
            return found
        return self.fresh(shape, element)

    def fresh(self, shape: Shape, element: str = FLOAT) -> Value:
        """A new value: a function argument, a constant or an iota."""
        rng = self.program.rng
        if self.arguments is not None and shape and rng.random() < 0.6:
            value = Value(f"%arg{len(self.arguments)}", shape, element)
            self.arguments.append(value)
            return value
        value = self.result(shape, element)
        if shape and element != BOOL and rng.random() < 0.3:
            self.add("stablehlo.iota", f"dim = {rng.randrange(len(shape))}", value.type, value)
        else:
            self.write(
                f"{value.name} = stablehlo.constant{self.attributes([value], 0.1)} "
                f"dense<{self.program.literal(shape, element)}> : {value.type}"
            )
            self.values.append(value)
        return value

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.program.choose_operation(self)(self)

    def outputs(self, count: int) -> list[Value]:
        """What the scope gives: of its values those that nothing uses first."""
        floats = [v for v in self.values if v.element == FLOAT]
        if not floats:
            return [self.fresh(self.program.new_shape(1))]
        text = "\n".join(self.lines) + "\n"
        unused = [v for v in floats if len(re.findall(rf"{re.escape(v.name)}\b", text)) < 2]
        self.program.rng.shuffle(unused)
        return [*unused, *floats[::-1]][:count]


Operations = Sequence[tuple[Callable[[Scope], None], int, bool]]
"""What adds an operation, its weight, and whether it has regions."""


class Program:
    """Grows a module."""

    def __init__(self, seed: int, operations: Operations) -> None:
        self.operations = operations
        self.rng = random.Random(seed)
        self.shardings = Shardings(self.rng)
        self.pool = self.rng.sample((2, 3, 4, 6, 8, 12, 16, 24), self.rng.choice((2, 3, 3)))
        # The propagation pipeline turns away named computations of the program's own.
        self.named = self.rng.random() < 0.12
        self.functions: list[Function] = []
        self.texts: list[str] = []
        self._names = 0
        self._groups = 0

    def new_name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def new_groups(self) -> dict[Shape, int]:
        """Ids of sharding groups by shape, which no other such dict has."""
        return {}

    def group_of(self, groups: dict[Shape, int], shape: Shape) -> int:
        if shape not in groups:
            self._groups += self.rng.choice((1, 1, 7))
            groups[shape] = self._groups
        return groups[shape]

    def new_shape(self, least_rank: int = 0) -> Shape:
        rank = max(least_rank, self.rng.choice((1, 2, 2, 2, 3, 3, 4)))
        return tuple(self.rng.choice(self.pool) for _ in range(rank))

    def literal(self, shape: Shape, element: str) -> str:
        def number() -> str:
            if element == BOOL:
                return self.rng.choice(("true", "false"))
            return str(self.rng.randrange(5)) if element == INT else f"{self.rng.randrange(9)}.5"

        if len(shape) == 1 and shape[0] <= 4 and self.rng.random() < 0.4:
            return "[" + ", ".join(number() for _ in range(shape[0])) + "]"
        return number()

    def choose_operation(self, scope: Scope) -> Callable[[Scope], None]:
        kinds = [
            (op, weight)
            for op, weight, region in self.operations
            if (not region or scope.depth < 2)
            and (op.__name__ != "named_computation" or self.named)
        ]
        return self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]

    def signature(self, values: Sequence[Value], sharded: bool, *, named: bool) -> str:
        parts = []
        for value in values:
            text = f"{value.name}: {value.type}" if named else value.type
            if sharded and self.rng.random() < 0.4:
                sharding = self.shardings.sharding(value.shape, frozenset())
                text += f" {{sdy.sharding = #sdy.sharding{sharding}}}"
            parts.append(text)
        return ", ".join(parts)

    def function(self, name: str, count: int, *, private: bool, sharded: bool) -> None:
        arguments = [
            Value(f"%arg{i}", self.new_shape()) for i in range(self.rng.choice((1, 2, 2, 3)))
        ]
        scope = Scope(self, arguments, arguments=arguments, sharded=sharded)
        scope.values = arguments[:]
        scope.grow(count)
        outputs = scope.outputs(self.rng.choice((1, 1, 2) if private else (1, 2, 3, 4)))
        scope.write(f"return {names(outputs)} : {types(outputs)}")
        head = "func.func private" if private else "func.func"
        ins = self.signature(arguments, sharded, named=True)
        outs = self.signature(outputs, sharded, named=False)
        self.texts.append(
            f"{head} @{name}({ins}) -> ({outs}) {{\n" + "\n".join(scope.lines) + "\n}"
        )
        self.functions.append(Function(name, arguments, outputs, not sharded))

    def module(self) -> str:
        rng = self.rng
        for index in range(rng.choice((0, 0, 0, 1, 2))):
            self.function(
                f"f{index}", rng.randrange(1, 5), private=True, sharded=rng.random() < 0.6
            )
        self.function("main", rng.randrange(2, 16), private=False, sharded=True)
        meshes = [f"sdy.mesh @{m.name} = {m.text}" for m in self.shardings.meshes]
        texts = self.texts[::-1] if rng.random() < 0.5 else self.texts
        return "\n".join([*meshes, *texts]) + "\n"
