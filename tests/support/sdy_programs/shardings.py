"""Values, types and random shardings of the random programs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
Axis = tuple[str, int, int]  # name, pre-size, size; pre-size 0: the full axis

FLOAT, INT, BOOL = "f32", "i32", "i1"


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
