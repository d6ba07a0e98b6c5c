"""What random programs of one operation are made of: text, shapes, regions."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["Pieces", "Program", "Shape", "fields", "ints", "pairs", "tensor"]

Shape = Sequence[int]


def tensor(shape: Shape, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def ints(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def pairs(values: Sequence[tuple[int, int]]) -> str:
    body = f"[{', '.join(f'[{a}, {b}]' for a, b in values)}]" if values else ""
    return f"dense<{body}> : tensor<{len(values)}x2xi64>"


def fields(**values: Sequence[int] | int) -> str:
    """The fields of a structure, those left out that are empty or zero."""
    return ", ".join(
        f"{name} = {value if isinstance(value, int) else list(value)}"
        for name, value in values.items()
        if value
    )


class Program:
    """One function; operations are added in order."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.lines: list[str] = []

    def argument(self, type_: str) -> tuple[str, str]:
        name = f"%arg{len(self.arguments)}"
        self.arguments.append(f"{name}: {type_}")
        return name, type_

    def op(
        self,
        name: str,
        operands: Sequence[tuple[str, str]],
        results: Sequence[str],
        attributes: str = "",
        regions: str = "",
    ) -> list[tuple[str, str]]:
        number = len(self.lines)
        left = f"%v{number}:{len(results)} = " if results else ""
        text = f'{left}"{name}"({", ".join(v for v, _ in operands)})'
        text += f" <{{{attributes}}}>" if attributes else ""
        text += f" ({regions})" if regions else ""
        types = f"({', '.join(t for _, t in operands)}) -> ({', '.join(results)})"
        self.lines.append(f"{text} : {types}")
        return [(f"%v{number}#{i}", type_) for i, type_ in enumerate(results)]

    def __str__(self) -> str:
        body = "\n  ".join([*self.lines, "return"])
        return f"func.func @main({', '.join(self.arguments)}) {{\n  {body}\n}}\n"


class Pieces:
    """Random shapes, subsets and regions, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, probability: float = 0.5) -> bool:
        return self.random.random() < probability

    def size(self, smallest: int = 0) -> int:
        return max(smallest, self.random.choice([0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 32]))

    def shape(self, smallest_rank: int = 0, largest_rank: int = 5, smallest: int = 0) -> list[int]:
        rank = self.random.randint(smallest_rank, largest_rank)
        return [self.size(smallest) for _ in range(rank)]

    def subset(self, items: Sequence[int], count: int | None = None) -> list[int]:
        count = self.random.randint(0, len(items)) if count is None else count
        return self.random.sample(list(items), count)

    def region(self, op: str, elements: Sequence[str]) -> str:
        """A computation that combines old and new values, one op for each."""
        scalars = [f"tensor<{e}>" for e in elements]
        count = len(elements)
        arguments = ", ".join(f"%r{i}: {t}" for i, t in enumerate(scalars * 2))
        lines, names = [], []
        for i, type_ in enumerate(scalars):
            operands = [i, i + count]
            if self.chance(0.2):
                operands.reverse()
            if self.chance(0.1):
                operands[1] = operands[0]
            which = "stablehlo.subtract" if self.chance(0.1) else op
            if type_ == "tensor<i1>" and which.endswith("subtract"):
                which = "stablehlo.xor"
            left, right = operands
            lines.append(f'%s{i} = "{which}"(%r{left}, %r{right}) : ({type_}, {type_}) -> {type_}')
            names.append(f"%s{i}")
        return_ = f'"stablehlo.return"({", ".join(names)}) : ({", ".join(scalars)}) -> ()'
        return f"{{ ^bb0({arguments}): {' '.join([*lines, return_])} }}"

    def compare_region(self, elements: Sequence[str]) -> str:
        scalars = [f"tensor<{e}>" for e in elements for _ in range(2)]
        arguments = ", ".join(f"%r{i}: {t}" for i, t in enumerate(scalars))
        return (
            f"{{ ^bb0({arguments}): "
            f'%s = "stablehlo.compare"(%r0, %r1) <{{comparison_direction = '
            f"#stablehlo<comparison_direction LT>}}> : "
            f"({scalars[0]}, {scalars[1]}) -> tensor<i1> "
            f'"stablehlo.return"(%s) : (tensor<i1>) -> () }}'
        )
