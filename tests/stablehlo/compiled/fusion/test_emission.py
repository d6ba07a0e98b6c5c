"""Random blocks of fusible operations compute what the reference does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from campaigns import shares
from stablehlo_fusion import (
    check_same,
    edge_values,
    evaluate_fused,
    parse,
    reference,
    steps_of,
)
from variants import thorough

from emu.stablehlo.compiled.fusion import Group

UNARY = ("negate", "abs", "floor", "sign", "round_nearest_even")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
SHAPES = ((3, 5, 8), (4, 40), (7, 300), (2, 3, 2, 33), (1300,), (1, 6, 1, 9), (2, 1100), ())


class Author:
    """Writer of random programs.

    Floats take values of small integers, so that sums are the same in any order.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...], str]] = []
        self.inputs: list[tuple[str, tuple[int, ...], str]] = []
        self.shape = self.random.choice(SHAPES)
        self.element = self.random.choice(("f32", "f32", "f32", "i32", "f64", "f16", "i8"))

    def type(self, shape: tuple[int, ...], element: str) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"

    def input(self, shape: tuple[int, ...], element: str) -> str:
        name = f"%a{len(self.inputs)}"
        self.inputs.append((name, shape, element))
        self.values.append((name, shape, element))
        return name

    def define(self, text: str, shape: tuple[int, ...], element: str) -> str:
        name = f"%{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.values.append((name, shape, element))
        return name

    def pick(self, shape: tuple[int, ...], element: str) -> str:
        """Return a value of a type: one that exists, or another, moved to the shape."""
        found = [n for n, s, e in self.values if (s, e) == (shape, element)]
        choice = self.random.random()
        if found and choice < 0.6:
            return self.random.choice(found[-4:])
        if choice < 0.7:
            return self.constant(shape, element)
        if choice < 0.75:
            axis = self.random.randrange(len(shape)) if shape else None
            if axis is not None:
                text = f"stablehlo.iota dim = {axis} : {self.type(shape, element)}"
                return self.define(text, shape, element)
        if choice < 0.93 and shape:
            return self.broadcast(shape, element)
        if choice < 0.96 and len(shape) > 1:
            return self.transposed(shape, element)
        return self.sliced(shape, element) if shape else self.input(shape, element)

    def constant(self, shape: tuple[int, ...], element: str) -> str:
        number = self.random.choice((-2, -1, 1, 2, 3))
        text = f"{number}.0" if element.startswith("f") else str(number)
        return self.define(
            f"stablehlo.constant dense<{text}> : {self.type(shape, element)}", shape, element
        )

    def broadcast(self, shape: tuple[int, ...], element: str) -> str:
        places = [d for d in range(len(shape)) if self.random.random() < 0.5]
        small = tuple(1 if self.random.random() < 0.1 else shape[d] for d in places)
        source = (
            self.pick(small, element) if self.random.random() < 0.5 else self.input(small, element)
        )
        text = (
            f"stablehlo.broadcast_in_dim {source}, dims = {places} : "
            f"({self.type(small, element)}) -> {self.type(shape, element)}"
        )
        return self.define(text, shape, element)

    def transposed(self, shape: tuple[int, ...], element: str) -> str:
        order = list(range(len(shape)))
        self.random.shuffle(order)
        other = tuple(shape[order.index(d)] for d in range(len(shape)))
        source = self.input(other, element)
        text = (
            f"stablehlo.transpose {source}, dims = {order} : "
            f"({self.type(other, element)}) -> {self.type(shape, element)}"
        )
        return self.define(text, shape, element)

    def sliced(self, shape: tuple[int, ...], element: str) -> str:
        low = [self.random.randrange(3) for _ in shape]
        step = [self.random.choice((1, 1, 2)) for _ in shape]
        high = [a + (n - 1) * s + 1 for a, n, s in zip(low, shape, step, strict=True)]
        whole = tuple(h + self.random.randrange(2) for h in high)
        source = self.input(whole, element)
        ranges = ", ".join(f"{a}:{h}:{s}" for a, h, s in zip(low, high, step, strict=True))
        text = f"stablehlo.slice {source} [{ranges}] : ({self.type(whole, element)}) -> {self.type(shape, element)}"
        return self.define(text, shape, element)

    def step(self, shape: tuple[int, ...], element: str) -> None:
        type_ = self.type(shape, element)
        kind = self.random.random()
        if kind < 0.25:
            names = UNARY if element.startswith("f") else (*UNARY[:2], "sign")
            self.define(
                f"stablehlo.{self.random.choice(names)} {self.pick(shape, element)} : {type_}",
                shape,
                element,
            )
        elif kind < 0.85:
            x, y = self.pick(shape, element), self.pick(shape, element)
            self.define(
                f"stablehlo.{self.random.choice(BINARY)} {x}, {y} : {type_}", shape, element
            )
        elif kind < 0.95:
            x, y = self.pick(shape, element), self.pick(shape, element)
            kind_ = "FLOAT" if element.startswith("f") else "SIGNED"
            mask = self.type(shape, "i1")
            name = self.define(
                f"stablehlo.compare GT, {x}, {y}, {kind_} : ({type_}, {type_}) -> {mask}",
                shape,
                "i1",
            )
            self.define(
                f"stablehlo.select {name}, {x}, {self.pick(shape, element)} : {mask}, {type_}",
                shape,
                element,
            )
        elif shape:
            flat = self.random.random() < 0.5
            other = (int(np.prod(shape)),) if flat else (*shape[:-1], 1, shape[-1])
            self.define(
                f"stablehlo.reshape {self.pick(shape, element)} : ({type_}) -> {self.type(other, element)}",
                other,
                element,
            )

    def reduce(self, shape: tuple[int, ...], element: str) -> tuple[int, ...]:
        axes = sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape))))
        if self.random.random() < 0.5:
            axes = [len(shape) - 1]
        other = tuple(n for d, n in enumerate(shape) if d not in axes)
        # Sums of what is between -2 and 2 are exact; so are extrema of all else.
        name = self.random.choice(("maximum", "minimum", "add"))
        if element == "f16" and np.prod(shape) > 1000:
            name = "maximum"  # sums beyond 2048 are rounded
        value = self.pick(shape, element)
        if name == "add":
            value = self.define(
                f"stablehlo.sign {value} : {self.type(shape, element)}", shape, element
            )
        start = self.constant((), element)
        self.define(
            f"stablehlo.reduce({value} init: {start}) applies stablehlo.{name} across dimensions = {axes} : "
            f"({self.type(shape, element)}, {self.type((), element)}) -> {self.type(other, element)}",
            other,
            element,
        )
        return other

    def program(self) -> str:
        """Return a module whose results are the last value and a few others."""
        self.input(self.shape, self.element)
        shape = self.shape
        for _ in range(self.random.randint(2, 12)):
            self.step(self.shape, self.element)
            if shape != self.shape and self.random.random() < 0.7:
                self.step(shape, self.element)
            if self.shape and self.random.random() < 0.25:
                shape = self.reduce(self.shape, self.element)
        computed = [v for v in self.values if not v[0].startswith("%a")]
        results = computed[-1:] + self.random.sample(self.values, min(len(self.values), 3))
        parameters = ", ".join(f"{n}: {self.type(s, e)}" for n, s, e in self.inputs)
        types = ", ".join(self.type(s, e) for _, s, e in results)
        names = ", ".join(n for n, _, _ in results)
        lines = "\n".join(self.lines)
        return f"func.func @main({parameters}) -> ({types}) {{\n{lines}\n  return {names} : {types}\n}}\n"


@pytest.mark.parametrize("part", thorough(shares(16), 0, 1))
def test_random_blocks_compute_what_the_reference_does(part: int) -> None:
    groups = 0
    for seed in range(25 * part, 25 * part + 25):
        author = Author(seed)
        text = author.program()
        module = parse(text)
        rng = np.random.default_rng(seed)
        inputs = []
        for index, (_, shape, element) in enumerate(author.inputs):
            size = int(np.prod(shape))
            if rng.random() < 0.5:
                values = edge_values(element, size, seed + index)
            else:
                like = edge_values(element, 1, 0)
                values = rng.integers(-3, 4, size).astype(like.dtype)
            inputs.append(values.reshape(shape))
        found, wanted = evaluate_fused(module, *inputs), reference(module, *inputs)
        check_same(found, wanted, f"seed {seed}:\n{text}")
        groups += sum(isinstance(step, Group) for step in steps_of(module))
    assert groups > 25
