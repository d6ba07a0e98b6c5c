"""Random StableHLO + sdy modules that Shardy's verifier accepts.

``program(seed)`` gives the same text for the same seed, always. A program is
grown operation by operation: a scope holds the values that may be used, an
operation takes some of them (or asks for a new one of a wanted type: a
function argument or a constant) and adds its results. Dimensions come from a
small pool, so that values of one type meet often.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
Axis = tuple[str, int, int]  # name, pre-size, size; pre-size 0: the full axis

FLOAT, INT, BOOL = "f32", "i32", "i1"
UNARY = ("abs", "negate", "tanh", "exponential", "cosine", "sqrt", "logistic", "floor")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
PRIORITY = re.compile(r"\}p\d")
REDUCERS = ("add", "maximum", "minimum", "multiply")


@dataclass(frozen=True)
class Value:
    name: str
    shape: Shape
    element: str = FLOAT

    @property
    def type(self) -> str:
        return tensor(self.shape, self.element)


def tensor(shape: Shape, element: str = FLOAT) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def types(values: Sequence[Value]) -> str:
    return ", ".join(v.type for v in values)


def names(values: Sequence[Value]) -> str:
    return ", ".join(v.name for v in values)


def numbers(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def arrow(operands: Sequence[Value], results: Sequence[Value]) -> str:
    out = types(results)
    return f"({types(operands)}) -> {out if len(results) == 1 else f'({out})'}"


# Meshes and shardings


@dataclass
class Mesh:
    name: str
    axes: dict[str, int]
    device_ids: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes.items())
        ids = f", device_ids={numbers(self.device_ids)}" if self.device_ids else ""
        return f"<[{axes}]{ids}>"

    def axis_text(self, axis: Axis) -> str:
        name, pre, size = axis
        return f'"{name}"' if not pre else f'"{name}":({pre}){size}'


def joined(axes: Sequence[Axis], mesh: Mesh) -> list[Axis]:
    """Consecutive sub-axes that follow one another become one, as must be."""
    out: list[Axis] = []
    for axis in axes:
        if out and axis[1] and out[-1][1] and out[-1][0] == axis[0]:
            name, pre, size = out[-1]
            if pre * size == axis[1]:
                size *= axis[2]
                full = pre == 1 and size == mesh.axes[name]
                out[-1] = (name, 0, size) if full else (name, pre, size)
                continue
        out.append(axis)
    return out


class Shardings:
    """Draws shardings on the meshes of a program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        axes = {
            name: rng.choice((2, 2, 2, 3, 4, 4, 6, 8, 1) if i else (2, 2, 4, 8, 3))
            for i, name in enumerate(("x", "y", "z")[: rng.choice((1, 2, 2, 2, 3, 3))])
        }
        self.main = Mesh("mesh", axes)
        self.meshes = [self.main]
        if rng.random() < 0.06:
            ids = list(range(math.prod(axes.values())))
            rng.shuffle(ids)
            if ids != sorted(ids):
                self.main.device_ids = ids
        if rng.random() < 0.05:
            self.meshes.append(Mesh("other_mesh", {"a": 2, "b": rng.choice((2, 4))}))
        if rng.random() < 0.04:
            self.meshes.append(Mesh("same_mesh", dict(axes), list(self.main.device_ids)))
        self.open_share = rng.choice((0.1, 0.4, 0.7))
        self.priorities = rng.random() < 0.25
        self.sub_axes = rng.random() < 0.35
        self.unreduced = rng.random() < 0.1

    def pieces(self, mesh: Mesh, taken: frozenset[str]) -> list[Axis]:
        """The axes, some cut in sub-axes, in random order."""
        out: list[Axis] = []
        for name, size in mesh.axes.items():
            if name in taken:
                continue
            divisors = [d for d in range(2, size) if size % d == 0]
            if self.sub_axes and divisors and self.rng.random() < 0.5:
                first = self.rng.choice(divisors)
                out += [(name, 1, first), (name, first, size // first)]
            else:
                out.append((name, 0, size))
        self.rng.shuffle(out)
        return out

    def mesh(self) -> Mesh:
        return self.main if self.rng.random() < 0.9 else self.rng.choice(self.meshes)

    def dims(self, shape: Shape, mesh: Mesh, taken: frozenset[str]) -> tuple[list[str], list[Axis]]:
        """Text of each dimension, and axes that none of them uses."""
        rng = self.rng
        pieces = self.pieces(mesh, taken)
        chosen: list[list[Axis]] = [[] for _ in shape]
        left: list[Axis] = []
        for piece in pieces:
            dim = rng.randrange(len(shape)) if shape else None
            if dim is None or rng.random() < 0.4:
                left.append(piece)
                continue
            size = math.prod(a[2] for a in chosen[dim]) * piece[2]
            if shape[dim] % size == 0 or rng.random() < 0.08:
                chosen[dim].append(piece)
            else:
                left.append(piece)
        texts = [self.dim_text(joined(axes, mesh), mesh) for axes in chosen]
        return texts, left

    def dim_text(self, axes: Sequence[Axis], mesh: Mesh, *, priority: bool = True) -> str:
        parts = [mesh.axis_text(axis) for axis in axes]
        is_open = self.rng.random() < self.open_share
        if is_open:
            parts.append("?")
        text = "{" + ", ".join(parts) + "}"
        if priority and self.priorities and (axes or is_open) and self.rng.random() < 0.4:
            text += f"p{self.rng.randrange(4)}"
        return text

    def in_mesh_order(self, axes: Sequence[Axis], mesh: Mesh) -> list[Axis]:
        order = list(mesh.axes)
        return joined(sorted(axes, key=lambda a: (order.index(a[0]), a[1])), mesh)

    def axis_list(self, keyword: str, axes: Sequence[Axis], mesh: Mesh) -> str:
        inner = ", ".join(mesh.axis_text(a) for a in self.in_mesh_order(axes, mesh))
        return f", {keyword}={{{inner}}}" if inner else ""

    def sharding(
        self, shape: Shape, taken: frozenset[str], mesh: Mesh | None = None, *, closed: bool = False
    ) -> str:
        """``<@mesh, [{"x"}, {?}]>`` without the axes ``taken``."""
        mesh = self.mesh() if mesh is None else mesh
        share, self.open_share = self.open_share, 0.0 if closed else self.open_share
        dims, left = self.dims(shape, mesh, taken)
        self.open_share = share
        tail = ""
        if left and self.rng.random() < 0.12:
            tail += self.axis_list("replicated", left[:1], mesh)
            left = left[1:]
        if self.unreduced and left and self.rng.random() < 0.1:
            tail += self.axis_list("unreduced", left[:1], mesh)
        return f"<@{mesh.name}, [{', '.join(dims)}]{tail}>"

    def per_value(self, values: Sequence[Value], taken: frozenset[str]) -> str:
        mesh = self.mesh()
        inner = ", ".join(self.sharding(v.shape, taken, mesh) for v in values)
        return f"#sdy.sharding_per_value<[{inner}]>"


# Scopes and functions


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


class Program:
    """Grows a module."""

    def __init__(self, seed: int) -> None:
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
            for op, weight, region in OPERATIONS
            if (not region or scope.depth < 2) and (op is not named_computation or self.named)
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


# Operations that compute


def unary(s: Scope) -> None:
    x = s.any_float()
    s.add(f"stablehlo.{s.program.rng.choice(UNARY)}", x.name, x.type, s.result(x.shape))


def binary(s: Scope) -> None:
    x = s.any_float()
    y = s.like(x.shape)
    pair = (x, y) if s.program.rng.random() < 0.5 else (y, x)
    s.add(f"stablehlo.{s.program.rng.choice(BINARY)}", names(pair), x.type, s.result(x.shape))


def compare_and_select(s: Scope) -> None:
    x = s.any_float()
    y, z = s.like(x.shape), s.like(x.shape)
    p = s.result(x.shape, BOOL)
    s.add("stablehlo.compare ", f"LT, {x.name}, {y.name}", arrow((x, y), (p,)), p)
    s.add("stablehlo.select", names((p, x, z)), f"{p.type}, {x.type}", s.result(x.shape))


def convert(s: Scope) -> None:
    x = s.any_float()
    i = s.result(x.shape, INT)
    s.add("stablehlo.convert", x.name, arrow((x,), (i,)), i)
    if s.program.rng.random() < 0.6:
        back = s.result(x.shape)
        s.add("stablehlo.convert", i.name, arrow((i,), (back,)), back)


def clamp(s: Scope) -> None:
    x = s.any_float()
    low, high = s.like(x.shape), s.like(x.shape)
    s.add("stablehlo.clamp", names((low, x, high)), x.type, s.result(x.shape))


def dot_general(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    rank = len(x.shape)
    order = rng.sample(range(rank), rank)
    batches = rng.choice((0, 0, 0, 1)) if rank > 1 else 0
    contracted = rng.choice((1, 1, 1, 2)) if rank - batches > 1 else 1
    batch, contract = order[:batches], order[batches : batches + contracted]
    y_shape = [x.shape[d] for d in batch + contract] + [
        rng.choice(s.program.pool) for _ in range(rng.choice((0, 1, 1)))
    ]
    places = rng.sample(range(len(y_shape)), len(y_shape)) if not batches else range(len(y_shape))
    shape = [0] * len(y_shape)
    for source, place in zip(y_shape, places, strict=True):
        shape[place] = source
    y = s.like(tuple(shape))
    y_batch, y_contract = list(places)[:batches], list(places)[batches : batches + contracted]
    out = [x.shape[d] for d in batch]
    out += [d for i, d in enumerate(x.shape) if i not in batch + contract]
    out += [d for i, d in enumerate(y.shape) if i not in y_batch + y_contract]
    text = names((x, y))
    if batches:
        text += f", batching_dims = {numbers(batch)} x {numbers(y_batch)}"
    text += f", contracting_dims = {numbers(contract)} x {numbers(y_contract)}"
    result = s.result(tuple(out))
    s.add("stablehlo.dot_general", text, arrow((x, y), (result,)), result)


def dot(s: Scope) -> None:
    x = s.pick(lambda v: v.element == FLOAT and len(v.shape) == 2)
    x = x or s.fresh(s.program.new_shape(2)[:2])
    y = s.like((x.shape[1], s.program.rng.choice(s.program.pool)))
    result = s.result((x.shape[0], y.shape[1]))
    s.add("stablehlo.dot", names((x, y)), arrow((x, y), (result,)), result)


def reduce(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    dims = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape))))
    init = s.like(())
    result = s.result(tuple(d for i, d in enumerate(x.shape) if i not in dims))
    text = f"({x.name} init: {init.name}) applies stablehlo.{rng.choice(REDUCERS)}"
    text += f" across dimensions = {numbers(dims)}"
    s.define(
        f"stablehlo.reduce{text}{s.attributes([result])} : {arrow((x, init), (result,))}", result
    )


# Operations that move


def transpose(s: Scope) -> None:
    x = s.any_float(2)
    dims = s.program.rng.sample(range(len(x.shape)), len(x.shape))
    result = s.result(tuple(x.shape[d] for d in dims))
    s.add(
        "stablehlo.transpose", f"{x.name}, dims = {numbers(dims)}", arrow((x,), (result,)), result
    )


def reshape(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    shape = list(x.shape)
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.randrange(4)
        place = rng.randrange(len(shape))
        splits = [d for d in range(2, shape[place]) if shape[place] % d == 0]
        if kind == 0 and len(shape) > 1:
            place = min(place, len(shape) - 2)
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        elif kind == 1 and splits and len(shape) < 5:
            first = rng.choice(splits)
            shape[place : place + 1] = [first, shape[place] // first]
        elif kind == 2 and len(shape) < 5:
            shape.insert(place, 1)
        elif kind == 3:
            shape = [d for d in shape if d != 1] or shape
    result = s.result(tuple(shape))
    s.add("stablehlo.reshape", x.name, arrow((x,), (result,)), result)


def broadcast(s: Scope) -> None:
    rng = s.program.rng
    x = s.like(()) if rng.random() < 0.3 else s.any_float()
    if len(x.shape) > 3:
        return
    shape = list(x.shape)
    dims = list(range(len(shape)))
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randint(0, len(shape))
        shape.insert(place, rng.choice(s.program.pool))
        dims = [d + (d >= place) for d in dims]
    for d in dims:
        if shape[d] == 1 and rng.random() < 0.7:
            shape[d] = rng.choice(s.program.pool)
    result = s.result(tuple(shape))
    text = f"{x.name}, dims = {numbers(dims)}"
    s.add("stablehlo.broadcast_in_dim", text, arrow((x,), (result,)), result)


def slice_(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    parts, shape = [], []
    for d in x.shape:
        if rng.random() < 0.5:
            start, stride = 0, 1
            stop = d
        else:
            start = rng.randrange(d)
            stop = rng.randint(start + 1, d)
            stride = rng.choice((1, 1, 2))
        parts.append(f"{start}:{stop}" + (f":{stride}" if stride > 1 else ""))
        shape.append(-(-(stop - start) // stride))
    result = s.result(tuple(shape))
    s.add("stablehlo.slice", f"{x.name} [{', '.join(parts)}]", arrow((x,), (result,)), result)


def concatenate(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    dim = rng.randrange(len(x.shape))

    def fits(v: Value) -> bool:
        return (
            v.element == FLOAT
            and len(v.shape) == len(x.shape)
            and all(
                i == dim or a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True))
            )
        )

    parts = [x, *(s.pick(fits) or x for _ in range(rng.choice((1, 1, 2))))]
    shape = list(x.shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    result = s.result(tuple(shape))
    s.add("stablehlo.concatenate", f"{names(parts)}, dim = {dim}", arrow(parts, (result,)), result)


def pad(s: Scope) -> None:
    rng = s.program.rng
    x, init = s.any_float(1), s.like(())
    low = [rng.choice((0, 0, 1, 2)) for _ in x.shape]
    high = [rng.choice((0, 0, 0, 2, -1)) if d > 1 else 0 for d in x.shape]
    inside = [rng.choice((0, 0, 0, 1)) for _ in x.shape]
    shape = tuple(
        d + a + b + (d - 1) * i for d, a, b, i in zip(x.shape, low, high, inside, strict=True)
    )
    result = s.result(shape)
    text = f"{names((x, init))}, low = {numbers(low)}, high = {numbers(high)}"
    text += f", interior = {numbers(inside)}"
    s.add("stablehlo.pad", text, arrow((x, init), (result,)), result)


def reverse(s: Scope) -> None:
    x = s.any_float(1)
    text = f"{x.name}, dims = [{s.program.rng.randrange(len(x.shape))}]"
    s.add("stablehlo.reverse", text, x.type, s.result(x.shape))


def dynamic_slice(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    starts = [s.like((), INT) for _ in x.shape]
    if rng.random() < 0.5:
        shape = tuple(rng.choice((d, d, max(1, d // 2))) for d in x.shape)
        result = s.result(shape)
        text = f"{names([x, *starts])}, sizes = {numbers(shape)}"
        s.add("stablehlo.dynamic_slice", text, arrow([x, *starts], (result,)), result)
    else:
        update = s.like(tuple(rng.choice((d, d, max(1, d // 2))) for d in x.shape))
        operands, result = [x, update, *starts], s.result(x.shape)
        s.add("stablehlo.dynamic_update_slice", names(operands), arrow(operands, (result,)), result)


def gather(s: Scope) -> None:
    """Rows of a tensor by index, as embedding tables are read."""
    rng = s.program.rng
    x = s.any_float(1)
    dim = rng.randrange(len(x.shape))
    ids = s.like((*s.program.new_shape()[:2], 1), INT)
    rest = [d for i, d in enumerate(x.shape) if i != dim]
    sizes = [1 if i == dim else d for i, d in enumerate(x.shape)]
    batch = list(ids.shape[:-1])
    result = s.result(tuple(batch + rest))
    offsets = list(range(len(batch), len(batch) + len(rest)))
    numbers_text = (
        f"#stablehlo.gather<offset_dims = {numbers(offsets)}, collapsed_slice_dims = [{dim}], "
        f"start_index_map = [{dim}], index_vector_dim = {len(batch)}>"
    )
    s.write(
        f'{result.name} = "stablehlo.gather"({names((x, ids))}) <{{dimension_numbers = '
        f"{numbers_text}, slice_sizes = array<i64: {str(sizes)[1:-1]}>}}>"
        f"{s.attributes([result])} : {arrow((x, ids), (result,))}"
    )
    s.values.append(result)


def iota(s: Scope) -> None:
    value = s.result(s.program.new_shape(), s.program.rng.choice((FLOAT, FLOAT, INT)))
    text = f"dim = {s.program.rng.randrange(len(value.shape))}"
    s.add("stablehlo.iota", text, value.type, value)


def constant(s: Scope) -> None:
    arguments, s.arguments = s.arguments, None
    s.fresh(s.any_float().shape)
    s.arguments = arguments


def custom_call(s: Scope) -> None:
    x = s.any_float()
    s.add("stablehlo.custom_call", f"@foo({x.name})", arrow((x,), (x,)), s.result(x.shape))


# Operations of the dialect


def constraint(s: Scope) -> None:
    if not s.sharded:
        return unary(s)
    x = s.any_float()
    result = s.result(x.shape)
    closed = s.program.rng.random() < 0.5
    sharding = s.program.shardings.sharding(x.shape, s.taken, closed=closed)
    s.define(f"sdy.sharding_constraint {x.name} {sharding} : {x.type}", result)
    return None


def group(s: Scope) -> None:
    x = s.any_float()
    number = s.program.group_of(s.groups, x.shape)
    s.write(f"sdy.sharding_group {x.name} group_id={number} : {x.type}")


def barrier(s: Scope) -> None:
    x = s.any_float()
    direction = s.program.rng.choice(("NONE", "FORWARD", "BACKWARD"))
    result = s.result(x.shape)
    s.define(f"sdy.propagation_barrier {x.name} allowed_direction={direction} : {x.type}", result)


def optimization_barrier(s: Scope) -> None:
    xs = [s.any_float() for _ in range(s.program.rng.choice((1, 2, 2)))]
    results = [s.result(x.shape) for x in xs]
    s.define(
        f"stablehlo.optimization_barrier{s.attributes(results)} {names(xs)} : {types(xs)}",
        *results,
    )


# Operations with regions, and calls


def while_(s: Scope) -> None:
    rng = s.program.rng
    carried = [s.any_float() for _ in range(rng.choice((1, 2, 2, 3)))]
    start = s.like((), INT)
    inits = [start, *carried]
    arguments = [s.result(v.shape, v.element) for v in inits]
    results = [s.result(v.shape, v.element) for v in inits]
    cond = s.inner(arguments)
    limit, done = cond.result((), INT), cond.result((), BOOL)
    cond.write(f"{limit.name} = stablehlo.constant dense<{rng.randrange(1, 9)}> : tensor<i32>")
    cond.write(
        f"{done.name} = stablehlo.compare  LT, {arguments[0].name}, {limit.name} : "
        "(tensor<i32>, tensor<i32>) -> tensor<i1>"
    )
    cond.write(f"stablehlo.return {done.name} : tensor<i1>")
    body = s.inner([*s.values, *arguments] if rng.random() < 0.5 else arguments)
    body.grow(rng.randrange(1, 5))
    one, following = body.result((), INT), body.result((), INT)
    body.write(f"{one.name} = stablehlo.constant dense<1> : tensor<i32>")
    body.write(f"{following.name} = stablehlo.add {arguments[0].name}, {one.name} : tensor<i32>")
    ends = [following, *(body.like(a.shape) for a in arguments[1:])]
    body.write(f"stablehlo.return {names(ends)} : {types(ends)}")
    binds = ", ".join(f"{a.name} = {v.name}" for a, v in zip(arguments, inits, strict=True))
    attributes = s.attributes(results)
    attributes = f" attributes{attributes}" if attributes else ""
    s.define(
        f"stablehlo.while({binds}) : {types(inits)}{attributes}\n"
        + "\n".join(["cond {", *cond.lines, "} do {", *body.lines, "}"]),
        *results,
    )


def case(s: Scope) -> None:
    rng = s.program.rng
    index = s.like((), INT)
    results = [s.result(s.any_float().shape) for _ in range(rng.choice((1, 1, 2)))]
    branches = []
    for _ in range(rng.choice((2, 2, 3))):
        branch = s.inner(s.values)
        branch.grow(rng.randrange(0, 3))
        ends = [branch.like(r.shape) for r in results]
        branch.write(f"stablehlo.return {names(ends)} : {types(ends)}")
        branches.append("\n".join(branch.lines))
    s.define(
        f'"stablehlo.case"({index.name}) ({{\n'
        + "\n}, {\n".join(branches)
        + f"\n}}){s.attributes(results)} : {arrow((index,), results)}",
        *results,
    )


def call(s: Scope) -> None:
    found = [f for f in s.program.functions if f.axes_free or not s.taken]
    if not found:
        return binary(s)
    function = s.program.rng.choice(found)
    operands = [s.like(v.shape, v.element) for v in function.inputs]
    results = [s.result(v.shape, v.element) for v in function.outputs]
    s.define(
        f"func.call @{function.name}({names(operands)}){s.attributes(results)} : "
        f"{arrow(operands, results)}",
        *results,
    )
    return None


def named_computation(s: Scope) -> None:
    rng, draw = s.program.rng, s.program.shardings
    operands = [s.any_float() for _ in range(rng.choice((1, 2)))]
    arguments = [s.result(v.shape) for v in operands]
    body = s.inner(arguments, arguments=None)
    body.grow(rng.randrange(1, 4))
    outputs = body.outputs(rng.choice((1, 1, 2)))
    body.write(f"sdy.return {names(outputs)} : {types(outputs)}")
    results = [s.result(v.shape) for v in outputs]
    shardings = ""
    for keyword, values in (("in_shardings", operands), ("out_shardings", results)):
        if s.sharded and rng.random() < 0.3:
            mesh = draw.mesh()
            inner = ", ".join(draw.sharding(v.shape, s.taken, mesh) for v in values)
            shardings += f" {keyword}=[{inner}]"
    head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
    s.define(
        f'sdy.named_computation<"g{rng.randrange(3)}">({names(operands)}){shardings} ({head}) {{\n'
        + "\n".join(body.lines)
        + f"\n}} : {arrow(operands, results)}",
        *results,
    )


def manual_sharding(s: Scope, shape: Shape, manual: Sequence[str]) -> tuple[str, Shape]:
    """A sharding whose dimensions begin with manual axes, and the local shape."""
    rng, draw = s.program.rng, s.program.shardings
    mesh = draw.main
    axes: list[list[Axis]] = [[] for _ in shape]
    local = list(shape)
    unused = []
    for name in rng.sample(manual, len(manual)):
        fitting = [i for i, d in enumerate(local) if d % mesh.axes[name] == 0]
        if fitting and rng.random() < 0.7:
            dim = rng.choice(fitting)
            axes[dim].append((name, 0, mesh.axes[name]))
            local[dim] //= mesh.axes[name]
        else:
            unused.append(name)
    for piece in draw.pieces(mesh, s.taken | set(manual)):
        dim = rng.randrange(len(shape)) if shape else 0
        if shape and local[dim] % piece[2] == 0 and rng.random() < 0.25:
            axes[dim].append(piece)
    # A priority may not be left where only manual axes are, which the body does not see.
    free = [any(name not in manual for name, _, _ in a) for a in axes]
    dims = ", ".join(
        draw.dim_text(joined(a, mesh), mesh, priority=f) for a, f in zip(axes, free, strict=True)
    )
    replicated = [(n, 0, mesh.axes[n]) for n in unused if rng.random() < 0.5]
    tail = draw.axis_list("replicated", replicated, mesh)
    return f"<@{mesh.name}, [{dims}]{tail}>", tuple(local)


def manual_computation(s: Scope) -> None:
    rng, mesh = s.program.rng, s.program.shardings.main
    free = [name for name in mesh.axes if name not in s.taken]
    if not free or not s.sharded:
        return unary(s)
    manual = rng.sample(free, rng.randint(1, len(free)))
    operands = [s.any_float() for _ in range(rng.choice((1, 2)))]
    arguments, ins = [], []
    for value in operands:
        sharding, local = manual_sharding(s, value.shape, manual)
        arguments.append(s.result(local))
        ins.append(sharding)
    body = s.inner(arguments, arguments=None, taken=s.taken | set(manual))
    body.grow(rng.randrange(1, 4))
    outputs = body.outputs(rng.choice((1, 1, 2)))
    body.write(f"sdy.return {names(outputs)} : {types(outputs)}")
    results, outs = [], []
    for value in outputs:
        # The global shape: the local one grown by the axes that are put on it.
        grown = tuple(d * math.prod(mesh.axes[n] for n in manual) for d in value.shape)
        sharding, local = manual_sharding(s, grown, manual)
        shape = tuple(v * (g // l) for v, g, l in zip(value.shape, grown, local, strict=True))
        results.append(s.result(shape))
        outs.append(sharding)
    head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
    axes = ", ".join(f'"{name}"' for name in manual)
    s.define(
        f"sdy.manual_computation({names(operands)}) in_shardings=[{', '.join(ins)}] "
        f"out_shardings=[{', '.join(outs)}] manual_axes={{{axes}}} ({head}) {{\n"
        + "\n".join(body.lines)
        + f"\n}} : {arrow(operands, results)}",
        *results,
    )
    return None


OPERATIONS: tuple[tuple[Callable[[Scope], None], int, bool], ...] = (
    # what, weight, whether it has regions
    (unary, 8, False),
    (binary, 14, False),
    (compare_and_select, 2, False),
    (convert, 2, False),
    (clamp, 1, False),
    (dot_general, 10, False),
    (dot, 3, False),
    (reduce, 6, False),
    (transpose, 5, False),
    (reshape, 7, False),
    (broadcast, 6, False),
    (slice_, 4, False),
    (concatenate, 4, False),
    (pad, 3, False),
    (reverse, 1, False),
    (dynamic_slice, 3, False),
    (gather, 3, False),
    (iota, 2, False),
    (constant, 4, False),
    (custom_call, 1, False),
    (constraint, 8, False),
    (group, 4, False),
    (barrier, 2, False),
    (optimization_barrier, 2, False),
    (while_, 3, True),
    (case, 2, True),
    (call, 4, False),
    (named_computation, 4, True),
    (manual_computation, 3, True),
)


def program(seed: int) -> str:
    """The module of a seed, as MLIR text.

    Args:
        seed: Any integer; one seed always gives one text.
    """
    return Program(seed).module()
