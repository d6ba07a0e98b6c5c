"""How ops walk: where a part of a result comes from.

An op walks a *space*: its result, or the operand of a reduction. Each axis of an operand or of a result follows an axis of
the space, or is needed whole. So for a block of the space it is known what is read and written. Axes of the space along
which elements are combined are never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from emu.pypto.symbolic import Shape

WHOLE = -1
"""An axis that each part needs whole."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The walk of an op.

    Attributes:
        space: Extents of what it walks.
        inputs: For each tensor that it reads, the axis of the space that each of its axes follows, or :data:`WHOLE`.
        outputs: The same of its results.
        uncut: Axes of the space that no part divides.
        needs_rows: Whether the order in which elements are combined depends on how rows of the first operand lie in memory.
        is_product: Whether each part packs its right operand, so that few parts are better.
    """

    space: Shape
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    uncut: frozenset[int] = frozenset()
    needs_rows: bool = False
    is_product: bool = False


Walker: TypeAlias = Callable[[Sequence[Shape], Sequence[Shape], tuple[Any, ...]], Walk | None]
"""Returns the walk of an op, given the shapes of its tensors and its attributes; None: it must not be cut."""


def element_wise(inputs: Sequence[Shape], outputs: Sequence[Shape], _: tuple[Any, ...]) -> Walk:
    """Walk the result; operands may be broadcast."""
    space = outputs[0]
    return Walk(
        space,
        tuple([_aligned(x, space) for x in inputs]),
        tuple([_aligned(x, space) for x in outputs]),
    )


def lines(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: tuple[Any, ...]) -> Walk:
    """Walk the first operand, along axes that are the first attribute, in whatever order elements are combined."""
    space, axes = inputs[0], attributes[0]
    uncut = frozenset(axes if isinstance(axes, tuple) else (axes,))
    left = tuple([axis for axis in range(len(space)) if axis not in uncut])
    return Walk(
        space,
        tuple([_aligned(x, space) for x in inputs]),
        tuple([_aligned(x, space) if len(x) == len(space) else left for x in outputs]),
        uncut,
    )


def rows(
    inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: tuple[Any, ...]
) -> Walk | None:
    """As :func:`lines`, but only along the last axes: else the order goes by how many elements lie beside each other."""
    found = lines(inputs, outputs, attributes)
    rank = len(found.space)
    if found.uncut != frozenset(range(rank - len(found.uncut), rank)):
        return None
    return Walk(found.space, found.inputs, found.outputs, found.uncut, needs_rows=True)


def transposed(inputs: Sequence[Shape], outputs: Sequence[Shape], order: tuple[Any, ...]) -> Walk:
    """Walk the result, whose axes are those of the operand in the order of the attributes."""
    space = outputs[0]
    return Walk(space, (tuple([order.index(axis) for axis in range(len(order))]),), (_all(space),))


def extended(inputs: Sequence[Shape], outputs: Sequence[Shape], _: tuple[Any, ...]) -> Walk:
    """Walk the longer of operand and result, which differ in axes of extent 1."""
    (source,), (result,) = inputs, outputs
    space = source if len(source) > len(result) else result
    return Walk(space, (_matched(source, space),), (_matched(result, space),))


def product(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: tuple[Any, ...]) -> Walk:
    """Walk the rows of the result of a matrix product; the first attribute says whether the left operand is transposed.

    Behind the two operands may come a bias, which is a row, and what the product is added to.
    """
    left, right, *more = inputs
    (space,) = outputs
    row = len(space) - 2
    at = len(left) - (1 if attributes[0] else 2)
    follows = [tuple([row if axis == at else WHOLE for axis in range(len(left))])]
    follows.append((WHOLE,) * len(right))
    follows += [_all(x) if x == space and space[row] > 1 else (WHOLE,) * len(x) for x in more]
    uncut = frozenset(axis for axis in range(len(space)) if axis != row)
    return Walk(space, tuple(follows), (_all(space),), uncut, is_product=True)


def _all(shape: Shape) -> Shape:
    return tuple(range(len(shape)))


def _aligned(shape: Shape, space: Shape) -> Shape:
    """Return what the axes of a shape follow that is broadcast to the space."""
    lead = len(space) - len(shape)
    return tuple([lead + i if n == space[lead + i] else WHOLE for i, n in enumerate(shape)])


def _matched(shape: Shape, space: Shape) -> Shape:
    """Return what the axes of a shape follow that has the axes of the space but for some of extent 1."""
    longer = iter([axis for axis, n in enumerate(space) if n != 1])
    return tuple([WHOLE if n == 1 else next(longer) for n in shape])
