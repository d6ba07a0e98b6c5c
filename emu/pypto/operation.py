"""What local ops compute: operations, and the ops of a program that are made of them.

An operation knows its meaning, in NumPy, and nothing of tensors or of the graph. So a backend may compute it in another way:
``reference`` is what it must agree with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from emu.pypto.dtypes import Array, DataType

if TYPE_CHECKING:
    from emu.pypto.buffer import Buffer
    from emu.pypto.node import Node
    from emu.pypto.symbolic import Shape
    from emu.pypto.walks import Walker


LEAST_ELEMENTS = 4096
"""Elements from which on ops are compiled: below, NumPy takes no longer. By element, not by how often an op runs, so that an
op has the same bits whenever it runs."""


class Rectangle(Protocol):
    """What ops need of a tensor: a rectangle of a buffer, of which a part is valid."""

    buffer: Buffer
    dtype: DataType
    low: Shape
    node: Node | None
    """For tokens: the op that it stands for, if that is pending."""
    shape: Shape
    valid_shape: Shape

    @property
    def array(self) -> Array:
        """The valid part."""

    def dense(self) -> Array:
        """Return the values over the whole shape, zero outside the valid part."""


Values: TypeAlias = "tuple[Array | np.generic, ...]"
Attributes: TypeAlias = tuple[Any, ...]
"""Hashable values; which, each operation says."""

Reference: TypeAlias = "Callable[[Values, tuple[Array, ...], Attributes], None]"
"""Writes the outputs, given the inputs and the attributes."""


Faster: TypeAlias = (
    "Callable[[tuple[Rectangle | np.generic, ...], tuple[Rectangle, ...], Attributes], None]"
)
"""Writes the outputs, given the inputs and the attributes, as tensors."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A kind of local op.

    Attributes:
        name: Its name in reports.
        kind: ``map``: element by element over inputs that broadcast to the output; ``reduce``: along the axis that is its
            first attribute; ``row``: as that, with a result of the input's shape; ``other``: known by its reference only.
        reference: Its meaning. Of a ``map`` the inputs are given over the valid part of the output, with zeros where they
            themselves are not valid; else the valid part of each, or all of it if ``reads_all``.
        reads_all: Whether the inputs of an op that is no ``map`` are given as whole arrays, zero where they are not valid.
        walk: What a part of the result needs of the operands. Default: by the kind; ops of kind ``other`` are not cut.
        may_fail: Whether it may raise an error that depends on values. Such an op runs at its call if it can.
        faster: Computes the same bits as the reference from the tensors themselves, for the native backend.
    """

    name: str
    kind: Literal["map", "reduce", "row", "other"]
    reference: Reference
    reads_all: bool = False
    walk: Walker | None = None
    may_fail: bool = False
    faster: Faster | None = None


LocalOp: TypeAlias = (
    "tuple[Operation, tuple[Rectangle | np.generic, ...], tuple[Rectangle, ...], Attributes]"
)
"""An op of a program: operation, inputs, outputs, attributes. A plain tuple, because each op of a program makes one."""
