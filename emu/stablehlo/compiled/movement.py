"""Forms that move elements: what views cannot show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.stablehlo.checks import integer
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints

Range = tuple[int, int, int]


@dataclass(frozen=True)
class Copy(Form):
    """A reshape of elements that do not lie one behind the other."""

    def bind(self, site: Site) -> Action:
        """Return what copies."""
        return site.call(_copy, *site.step.results, *site.step.operands)


def _copy(target: Array, source: Array) -> None:
    np.copyto(target.reshape(source.shape), source)


@plans("stablehlo.reshape")
def _reshape(context: Context) -> Form | None:
    return Copy()


@dataclass(frozen=True)
class Concatenate(Form):
    """Operands behind each other.

    Attributes:
        dimension: Along which one.
    """

    dimension: int

    def bind(self, site: Site) -> Action:
        """Return what copies the operands."""
        env, operands, (result,) = site.memory.env, site.step.operands, site.step.results
        dimension = self.dimension

        def run() -> None:
            np.concatenate([env[s] for s in operands], dimension, out=env[result])

        return run


@plans("stablehlo.concatenate")
def _concatenate(context: Context) -> Form | None:
    return Concatenate(integer(context.op, "dimension"))


@dataclass(frozen=True)
class Update(Form):
    """``dynamic_update_slice``.

    Attributes:
        sizes: Shape of the update.
        room: How far the update may move along each dimension.
    """

    sizes: tuple[int, ...]
    room: tuple[int, ...]

    def bind(self, site: Site) -> Action:
        """Return what writes the update."""
        env = site.memory.env
        source, update, *starts = site.step.operands
        (result,) = site.step.results
        ranges = list(zip(starts, self.sizes, self.room, strict=True))
        is_here = source == result

        def run() -> None:
            target = env[result]
            if not is_here:
                np.copyto(target, env[source])
            places = []
            for start, size, room in ranges:
                place = min(max(int(env[start]), 0), room)
                places.append(slice(place, place + size))
            target[tuple(places)] = env[update]

        return run


@plans("stablehlo.dynamic_update_slice")
def _update(context: Context) -> Form | None:
    full, sizes = context.operands[0].shape, context.operands[1].shape
    room = tuple(a - b for a, b in zip(full, sizes, strict=True))
    return Update(sizes, room, in_place=((0, 0),))


@dataclass(frozen=True)
class Pad(Form):
    """A pad of any kind.

    Attributes:
        targets: Where elements go, per dimension: first, end, step.
        sources: Which ones are left: first and end.
        fills: Whether there are others than those.
    """

    targets: tuple[Range, ...]
    sources: tuple[tuple[int, int], ...]
    fills: bool

    def bind(self, site: Site) -> Action:
        """Return what fills and copies."""
        targets = tuple(slice(*each) for each in self.targets)
        sources = tuple(slice(*each) for each in self.sources)
        fills = self.fills

        def run(x: Array, value: Array, result: Array) -> None:
            if fills:
                result.fill(value[()])
            result[targets] = x[sources]

        return site.all(run)


@plans("stablehlo.pad")
def _pad(context: Context) -> Form | None:
    op, x = context.op, context.operands[0]
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, _, interior = (ints(op.properties[name]) for name in names)
    shape = result_shape(op)
    targets, sources = [], []
    for a, n, i, size in zip(low, x.shape, interior, shape, strict=True):
        # Elements k with 0 <= a + k (i + 1) < size are inside.
        first = max(0, -(a // (i + 1))) if a < 0 else 0
        last = max(first, min(n, max(0, -(-(size - a) // (i + 1)))))
        begin = a + first * (i + 1)
        sources.append((first, last))
        targets.append((begin, begin + (last - first) * (i + 1), i + 1))
    if any(first == last for first, last in sources):
        return None
    count = np.prod([last - first for first, last in sources], dtype=int)
    return Pad(tuple(targets), tuple(sources), bool(count < np.prod(shape, dtype=int)))


@dataclass(frozen=True)
class Iota(Form):
    """Numbers along a dimension.

    Attributes:
        dimension: Along which one.
    """

    dimension: int

    def bind(self, site: Site) -> Action:
        """Return what writes the numbers."""
        dimension = self.dimension

        def run(result: Array) -> None:
            shape = [1] * result.ndim
            shape[dimension] = -1
            result[...] = np.arange(result.shape[dimension]).astype(result.dtype).reshape(shape)

        return site.all(run)


@plans("stablehlo.iota")
def _iota(context: Context) -> Form | None:
    if result_dtype(context.op.result.type).kind not in "iuf":
        return None
    return Iota(integer(context.op, "iota_dimension"))
